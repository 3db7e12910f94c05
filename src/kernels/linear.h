// y = x w^T + bias.   x: [rows, k] f32, w: [n, k] packed (kernels/pack.h), bias: [n] f32, y: [rows,
// n] f32.
#pragma once

#include "kernels/family.h"
#include "kvern/types.h"
#include "tensor/quant_format.h"

namespace kvern::kernels {

struct LinearDesc {
  int64_t n = 0;
  int64_t k = 0;
  DType storage = DType::kF32;  // the weight's QuantFormat, field by field
  int32_t group = 0;
  DType scale = DType::kF16;
  bool has_min = false;
  bool has_bias = false;
  Activations activations = Activations::kDefault;

  QuantFormat format() const { return {storage, group, scale, has_min}; }
  // Float weights have no int8 form of the product: they keep their default inputs.
  bool int8_inputs() const { return activations == Activations::kInt8 && format().quantised(); }
  static constexpr auto fields() {
    return std::tuple{field(1, "n", &LinearDesc::n),
                      field(2, "k", &LinearDesc::k),
                      field(3, "storage", &LinearDesc::storage),
                      field(4, "group", &LinearDesc::group),
                      field(5, "scale", &LinearDesc::scale),
                      field(6, "has_min", &LinearDesc::has_min),
                      field(7, "has_bias", &LinearDesc::has_bias),
                      field(8, "activations", &LinearDesc::activations)};
  }
};

struct LinearArgs {
  const float* x;      // [rows, k], rows x_stride apart
  const std::byte* w;  // packed
  const float* bias;   // [n] or nullptr
  float* y;            // [rows, n], rows y_stride apart
  int64_t rows;
  int64_t x_stride, y_stride;  // in elements
  device::Stream* stream;
};

// Operands: inputs x, w [, bias]; outputs y.
struct LinearFamily {
  using Desc = LinearDesc;
  using Args = LinearArgs;
  static constexpr const char* kName = "linear";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return desc.has_bias ? 3 : 2; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
