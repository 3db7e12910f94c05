#include <cmath>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/rms_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

// x + residual into sum, and the sum of squares of what was written.
[[gnu::target("avx512f,avx512dq")]] float add_and_square(const float* x, const float* residual,
                                                         float* sum, int64_t dim) {
  __m512 lanes = _mm512_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 s = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i),
                                   _mm512_maskz_loadu_ps(mask, residual + i));
    _mm512_mask_storeu_ps(sum + i, mask, s);
    lanes = _mm512_add_ps(lanes, _mm512_mul_ps(s, s));
  }
  return fold_lanes(lanes);
}

[[gnu::target("avx512f,avx512dq")]] float square(const float* x, int64_t dim) {
  __m512 lanes = _mm512_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    const __m512 v = _mm512_maskz_loadu_ps(first_lanes(dim - i), x + i);
    lanes = _mm512_add_ps(lanes, _mm512_mul_ps(v, v));
  }
  return fold_lanes(lanes);
}

[[gnu::target("avx512f")]] void scale(const float* x, float factor, const float* gamma, float* y,
                                      int64_t dim) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f);
    _mm512_mask_storeu_ps(y + i, mask,
                          _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, gamma + i)));
  }
}

void norm_heads(const RmsNormDesc& desc, const float* x, const float* gamma, float* y) {
  for (int64_t h = 0; h < desc.heads; ++h, x += desc.dim, y += desc.dim) {
    const float mean = square(x, desc.dim) / static_cast<float>(desc.dim);
    scale(x, 1.0f / std::sqrt(mean + desc.eps), gamma, y, desc.dim);
  }
}

}  // namespace

Verdict supports_rms_norm_avx512(const RmsNormDesc&) {
  return needs_avx512();
}

// y[t,:] = s[t,:] * rsqrt(mean(s[t,:]^2) + eps) * gamma.   x, y: [rows, dim], one row at a time.
// A row stays in L1 between its two passes: 8 to 16 * dim bytes moved.
void rms_norm_avx512(const RmsNormDesc& desc, const RmsNormArgs& args) {
  for_rows(args.stream, args.rows, desc.row_dim() / 6, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.x_stride;
      float* y = args.y + r * args.y_stride;
      if (!desc.has_residual) {
        norm_heads(desc, x, args.gamma, y);
        continue;
      }
      float* sum = args.sum + r * args.sum_stride;
      const float squares =
          add_and_square(x, args.residual + r * args.residual_stride, sum, desc.dim);
      const float mean = squares / static_cast<float>(desc.dim);
      scale(sum, 1.0f / std::sqrt(mean + desc.eps), args.gamma, y, desc.dim);
    }
  });
}

}  // namespace kvern::kernels::cpu
