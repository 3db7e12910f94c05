// y[t,:] = (x[t,:] - mean) * rsqrt(var + eps) * gamma + beta; mean and variance of x[t,:].
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

struct LayerNormDesc {
  int64_t dim = 0;
  float eps = 1e-5f;
  bool has_bias = false;
  static constexpr auto fields() {
    return std::tuple{field(1, "dim", &LayerNormDesc::dim), field(2, "eps", &LayerNormDesc::eps),
                      field(3, "has_bias", &LayerNormDesc::has_bias)};
  }
};

struct LayerNormArgs {
  const float* x;      // [rows, dim]
  const float* gamma;  // [dim]
  const float* beta;   // [dim] or nullptr
  float* y;            // [rows, dim]; may be x
  int64_t rows;
  int64_t x_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs x, gamma [, beta]; outputs y.
struct LayerNormFamily {
  using Desc = LayerNormDesc;
  using Args = LayerNormArgs;
  static constexpr const char* kName = "layer_norm";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return desc.has_bias ? 3 : 2; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
