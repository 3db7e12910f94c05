#include <cmath>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/rms_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

float sum_of_squares(const float* x, int64_t dim) {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= dim; i += 16) {
    for (int64_t l = 0; l < 16; ++l) lane[l] += x[i + l] * x[i + l];
  }
  for (int64_t l = 0; i + l < dim; ++l) lane[l] += x[i + l] * x[i + l];
  for (int64_t width = 8; width >= 1; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

}  // namespace

// y[t,:] = s[t,:] * rsqrt(mean(s[t,:]^2) + eps) * gamma.   Two passes over a row.
void rms_norm_plain(const RmsNormDesc& desc, const RmsNormArgs& args) {
  for_rows(args.stream, args.rows, desc.row_dim(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.x_stride;
      if (desc.has_residual) {
        const float* residual = args.residual + r * args.residual_stride;
        float* sum = args.sum + r * args.sum_stride;
        for (int64_t i = 0; i < desc.dim; ++i) sum[i] = x[i] + residual[i];
        x = sum;
      }
      float* y = args.y + r * args.y_stride;
      for (int64_t h = 0; h < desc.heads; ++h, x += desc.dim, y += desc.dim) {
        const float mean = sum_of_squares(x, desc.dim) / static_cast<float>(desc.dim);
        const float factor = 1.0f / std::sqrt(mean + desc.eps);
        for (int64_t i = 0; i < desc.dim; ++i) y[i] = x[i] * factor * args.gamma[i];
      }
    }
  });
}

}  // namespace kvern::kernels::cpu
