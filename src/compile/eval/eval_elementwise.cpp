// Ops that take each element on its own.
#include <algorithm>
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"

namespace kvern::eval {
namespace {

float silu(float x) {
  return x / (1.0f + std::exp(-x));
}

// In double: the oracle of kernels whose forms differ.
float gelu_tanh(float x) {
  const double v = x;
  const double u = 0.7978845608028654 * (v + 0.044715 * v * v * v);  // sqrt(2 / pi)
  return static_cast<float>(0.5 * v * (1.0 + std::tanh(u)));
}

float gelu_erf(float x) {
  const double v = x;
  return static_cast<float>(0.5 * v * std::erfc(-v * 0.7071067811865476));
}

template <class F>
std::vector<HostTensor> binary(Inputs in, F f) {
  HostTensor y = f32_tensor(in[0]->shape);
  std::transform(in[0]->f32.begin(), in[0]->f32.end(), in[1]->f32.begin(), y.f32.begin(), f);
  return {std::move(y)};
}

template <class F>
std::vector<HostTensor> unary(Inputs in, F f) {
  HostTensor y = f32_tensor(in[0]->shape);
  std::transform(in[0]->f32.begin(), in[0]->f32.end(), y.f32.begin(), f);
  return {std::move(y)};
}

}  // namespace

std::vector<HostTensor> eval_add(const ir::Node&, Inputs in) {
  return binary(in, [](float a, float b) { return a + b; });
}

std::vector<HostTensor> eval_mul(const ir::Node&, Inputs in) {
  return binary(in, [](float a, float b) { return a * b; });
}

std::vector<HostTensor> eval_silu(const ir::Node&, Inputs in) {
  return unary(in, silu);
}

std::vector<HostTensor> eval_silu_mul(const ir::Node&, Inputs in) {
  return binary(in, [](float gate, float up) { return silu(gate) * up; });
}

std::vector<HostTensor> eval_gelu_tanh(const ir::Node&, Inputs in) {
  return unary(in, gelu_tanh);
}

std::vector<HostTensor> eval_gelu_tanh_mul(const ir::Node&, Inputs in) {
  return binary(in, [](float gate, float up) { return gelu_tanh(gate) * up; });
}

std::vector<HostTensor> eval_gelu_erf(const ir::Node&, Inputs in) {
  return unary(in, gelu_erf);
}

std::vector<HostTensor> eval_gelu_erf_mul(const ir::Node&, Inputs in) {
  return binary(in, [](float gate, float up) { return gelu_erf(gate) * up; });
}

std::vector<HostTensor> eval_relu(const ir::Node&, Inputs in) {
  return unary(in, [](float x) { return x < 0.0f ? 0.0f : x; });
}

std::vector<HostTensor> eval_quick_gelu(const ir::Node&, Inputs in) {
  return unary(in, [](float x) { return static_cast<float>(x / (1.0 + std::exp(-1.702 * x))); });
}

std::vector<HostTensor> eval_tanh(const ir::Node&, Inputs in) {
  return unary(in, [](float x) { return std::tanh(x); });
}

std::vector<HostTensor> eval_sigmoid(const ir::Node&, Inputs in) {
  return unary(in, [](float x) { return static_cast<float>(1.0 / (1.0 + std::exp(-double{x}))); });
}

std::vector<HostTensor> eval_scale(const ir::Node& node, Inputs in) {
  const float factor = node.attrs.as<ir::FactorAttrs>().factor;
  return unary(in, [factor](float x) { return x * factor; });
}

std::vector<HostTensor> eval_softcap(const ir::Node& node, Inputs in) {
  const float cap = node.attrs.as<ir::FactorAttrs>().factor;
  return unary(in, [cap](float x) { return cap * std::tanh(x / cap); });
}

}  // namespace kvern::eval
