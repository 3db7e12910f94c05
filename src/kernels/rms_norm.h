// y[t,:] = s[t,:] * rsqrt(mean(s[t,:]^2) + eps) * gamma;  s = x, or x + residual (also written
// out). With heads > 1 a row holds so many of dim elements, each normed alone by the same gamma.
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

struct RmsNormDesc {
  int64_t dim = 0;
  float eps = 1e-5f;
  bool has_residual = false;
  int64_t heads = 1;  // 1 with a residual
  int64_t row_dim() const { return heads * dim; }
  static constexpr auto fields() {
    return std::tuple{field(1, "dim", &RmsNormDesc::dim), field(2, "eps", &RmsNormDesc::eps),
                      field(3, "has_residual", &RmsNormDesc::has_residual),
                      field(4, "heads", &RmsNormDesc::heads)};
  }
};

struct RmsNormArgs {
  const float* x;         // [rows, heads * dim]
  const float* residual;  // [rows, dim] or nullptr
  const float* gamma;     // [dim]
  float* sum;             // [rows, dim]; with residual only; may be residual
  float* y;               // [rows, heads * dim]
  int64_t rows;
  int64_t x_stride, residual_stride, sum_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs x, gamma; outputs y. With residual: inputs x, residual, gamma; outputs sum, y.
struct RmsNormFamily {
  using Desc = RmsNormDesc;
  using Args = RmsNormArgs;
  static constexpr const char* kName = "rms_norm";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return desc.has_residual ? 3 : 2; }
  static int64_t num_outputs(const Desc& desc) { return desc.has_residual ? 2 : 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
