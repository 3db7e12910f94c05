#include <cmath>

#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

float silu(float x) {
  return x / (1.0f + std::exp(-x));
}

void run_row(ElementwiseOp op, const float* a, const float* b, float* y, int64_t dim) {
  switch (op) {
    case ElementwiseOp::kAdd:
      for (int64_t i = 0; i < dim; ++i) y[i] = a[i] + b[i];
      return;
    case ElementwiseOp::kMul:
      for (int64_t i = 0; i < dim; ++i) y[i] = a[i] * b[i];
      return;
    case ElementwiseOp::kSilu:
      for (int64_t i = 0; i < dim; ++i) y[i] = silu(a[i]);
      return;
    case ElementwiseOp::kSiluMul:
      for (int64_t i = 0; i < dim; ++i) y[i] = silu(a[i]) * b[i];
      return;
  }
}

}  // namespace

void elementwise_plain(const ElementwiseDesc& desc, const ElementwiseArgs& args) {
  for_rows(args.stream, args.rows, desc.dim * 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* b = args.b == nullptr ? nullptr : args.b + r * args.b_stride;
      run_row(desc.op, args.a + r * args.a_stride, b, args.y + r * args.y_stride, desc.dim);
    }
  });
}

}  // namespace kvern::kernels::cpu
