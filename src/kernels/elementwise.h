// Ops that take each element on its own. All f32.
//   add a + b; mul a * b; silu a * sigmoid(a); scale a * factor; softcap factor * tanh(a / factor)
//   relu max(a, 0); quick_gelu a * sigmoid(1.702 a); tanh; sigmoid 1 / (1 + exp(-a))
//   gelu_tanh a / 2 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 a^3))); gelu_erf a / 2 * (1 + erf(a /
//   sqrt(2))) silu_mul, gelu_tanh_mul, gelu_erf_mul: that of a, times b
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

enum class ElementwiseOp : uint8_t {
  kAdd = 0,
  kMul = 1,
  kSilu = 2,
  kSiluMul = 3,
  kGeluTanh = 4,
  kGeluTanhMul = 5,
  kGeluErf = 6,
  kGeluErfMul = 7,
  kScale = 8,
  kSoftcap = 9,
  kRelu = 10,
  kQuickGelu = 11,
  kTanh = 12,
  kSigmoid = 13,
};

inline constexpr int kNumElementwiseOps = 14;

constexpr bool takes_two(ElementwiseOp op) {
  return op == ElementwiseOp::kAdd || op == ElementwiseOp::kMul || op == ElementwiseOp::kSiluMul ||
         op == ElementwiseOp::kGeluTanhMul || op == ElementwiseOp::kGeluErfMul;
}

struct ElementwiseDesc {
  ElementwiseOp op = ElementwiseOp::kAdd;
  int64_t dim = 0;
  float factor = 1.0f;  // kScale, kSoftcap
  static constexpr auto fields() {
    return std::tuple{field(1, "op", &ElementwiseDesc::op), field(2, "dim", &ElementwiseDesc::dim),
                      field(3, "factor", &ElementwiseDesc::factor)};
  }
};

struct ElementwiseArgs {
  const float* a;  // [rows, dim]
  const float* b;  // [rows, dim]; nullptr for an op on one
  float* y;        // [rows, dim]; may be a or b
  int64_t rows;
  int64_t a_stride, b_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs a [, b]; outputs y.
struct ElementwiseFamily {
  using Desc = ElementwiseDesc;
  using Args = ElementwiseArgs;
  static constexpr const char* kName = "elementwise";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return takes_two(desc.op) ? 2 : 1; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
