// Ops that take each element on its own: add, mul, silu, silu_mul. All f32.
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

enum class ElementwiseOp : uint8_t { kAdd = 0, kMul = 1, kSilu = 2, kSiluMul = 3 };

struct ElementwiseDesc {
  ElementwiseOp op = ElementwiseOp::kAdd;
  int64_t dim = 0;
  static constexpr auto fields() {
    return std::tuple{field(1, "op", &ElementwiseDesc::op), field(2, "dim", &ElementwiseDesc::dim)};
  }
};

struct ElementwiseArgs {
  const float* a;  // [rows, dim]
  const float* b;  // [rows, dim]; nullptr for kSilu
  float* y;        // [rows, dim]; may be a or b
  int64_t rows;
  int64_t a_stride, b_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs a [, b]; outputs y. silu_mul: y = a * sigmoid(a) * b.
struct ElementwiseFamily {
  using Desc = ElementwiseDesc;
  using Args = ElementwiseArgs;
  static constexpr const char* kName = "elementwise";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return desc.op == ElementwiseOp::kSilu ? 1 : 2; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
