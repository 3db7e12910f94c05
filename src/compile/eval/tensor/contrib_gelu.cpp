// com.microsoft's GELUs: BiasGelu and Gelu by erf, FastGelu by tanh, QuickGelu by sigmoid.
#include <cmath>

#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/floats.h"

namespace kvern::eval {
namespace {

float gelu_erf(float x) {
  return 0.5F * x * (1.0F + std::erf(x * 0.70710678F));
}

float gelu_tanh(float x) {
  return 0.5F * x * (1.0F + std::tanh(0.79788456F * (x + 0.044715F * x * x * x)));
}

}  // namespace

Arrays eval_ms_gelu(const OpCall& call) {
  const std::string& op = call.node.op;
  Array x = floats_in(call, 0);
  if (op != "QuickGelu" && call.has(1)) {  // a bias of the last axis
    const Shape shape = x.shape();
    x = combine<float, float, float>(call, x, floats_in(call, 1), ElementType::kFloat,
                                     [](float a, float b) { return a + b; });
    if (x.shape() != shape) call.fail("the bias is larger than the input");
  }
  const auto alpha = static_cast<float>(call.node.f("alpha", 1.702));
  Array y;
  if (op == "QuickGelu") {
    y = map_elements<float, float>(x, ElementType::kFloat,
                                   [alpha](float v) { return v / (1.0F + std::exp(-alpha * v)); });
  } else {
    y = map_elements<float, float>(x, ElementType::kFloat, op == "FastGelu" ? gelu_tanh : gelu_erf);
  }
  return {from_floats(y, call.in(0).type())};
}

}  // namespace kvern::eval
