#include <cmath>

#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

float silu(float x) {
  return x / (1.0f + std::exp(-x));
}

// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), which loses nothing where tanh is near -1.
float gelu_tanh(float x) {
  const float u2 = 1.5957691216f * (x + 0.044715f * x * x * x);  // 2 sqrt(2 / pi)
  return x / (1.0f + std::exp(-u2));
}

float gelu_erf(float x) {
  return 0.5f * x * std::erfc(-0.70710678118f * x);
}

float quick_gelu(float x) {
  return x / (1.0f + std::exp(-1.702f * x));
}

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

template <class F>
void each(const float* a, float* y, int64_t dim, F f) {
  for (int64_t i = 0; i < dim; ++i) y[i] = f(a[i]);
}

template <class F>
void each_times(const float* a, const float* b, float* y, int64_t dim, F f) {
  for (int64_t i = 0; i < dim; ++i) y[i] = f(a[i]) * b[i];
}

void run_row(const ElementwiseDesc& desc, const float* a, const float* b, float* y) {
  const int64_t dim = desc.dim;
  const float factor = desc.factor;
  switch (desc.op) {
    case ElementwiseOp::kAdd:
      for (int64_t i = 0; i < dim; ++i) y[i] = a[i] + b[i];
      return;
    case ElementwiseOp::kMul:
      for (int64_t i = 0; i < dim; ++i) y[i] = a[i] * b[i];
      return;
    case ElementwiseOp::kSilu:
      return each(a, y, dim, silu);
    case ElementwiseOp::kSiluMul:
      return each_times(a, b, y, dim, silu);
    case ElementwiseOp::kGeluTanh:
      return each(a, y, dim, gelu_tanh);
    case ElementwiseOp::kGeluTanhMul:
      return each_times(a, b, y, dim, gelu_tanh);
    case ElementwiseOp::kGeluErf:
      return each(a, y, dim, gelu_erf);
    case ElementwiseOp::kGeluErfMul:
      return each_times(a, b, y, dim, gelu_erf);
    case ElementwiseOp::kScale:
      return each(a, y, dim, [factor](float x) { return x * factor; });
    case ElementwiseOp::kSoftcap:
      return each(a, y, dim, [factor](float x) { return factor * std::tanh(x / factor); });
    case ElementwiseOp::kRelu:
      return each(a, y, dim, [](float x) { return x < 0.0f ? 0.0f : x; });
    case ElementwiseOp::kQuickGelu:
      return each(a, y, dim, quick_gelu);
    case ElementwiseOp::kTanh:
      return each(a, y, dim, [](float x) { return std::tanh(x); });
    case ElementwiseOp::kSigmoid:
      return each(a, y, dim, sigmoid);
  }
}

}  // namespace

void elementwise_plain(const ElementwiseDesc& desc, const ElementwiseArgs& args) {
  for_rows(args.stream, args.rows, desc.dim * 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* b = args.b == nullptr ? nullptr : args.b + r * args.b_stride;
      run_row(desc, args.a + r * args.a_stride, b, args.y + r * args.y_stride);
    }
  });
}

}  // namespace kvern::kernels::cpu
