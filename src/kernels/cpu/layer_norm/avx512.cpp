#include <cmath>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/layer_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

[[gnu::target("avx512f,avx512dq")]] float sum_of(const float* x, int64_t dim) {
  __m512 lanes = _mm512_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    lanes = _mm512_add_ps(lanes, _mm512_maskz_loadu_ps(first_lanes(dim - i), x + i));
  }
  return fold_lanes(lanes);
}

// Of x - mean.
[[gnu::target("avx512f,avx512dq")]] float squares_of(const float* x, float mean, int64_t dim) {
  const __m512 m = _mm512_set1_ps(mean);
  __m512 lanes = _mm512_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 d = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), m);
    lanes = _mm512_add_ps(lanes, _mm512_mul_ps(d, d));
  }
  return fold_lanes(lanes);
}

[[gnu::target("avx512f")]] void finish(const LayerNormArgs& args, const float* x, float mean,
                                       float factor, float* y, int64_t dim) {
  const __m512 m = _mm512_set1_ps(mean);
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), m);
    __m512 v =
        _mm512_mul_ps(_mm512_mul_ps(centred, f), _mm512_maskz_loadu_ps(mask, args.gamma + i));
    if (args.beta != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, args.beta + i));
    _mm512_mask_storeu_ps(y + i, mask, v);
  }
}

}  // namespace

Verdict supports_layer_norm_avx512(const LayerNormDesc&) {
  return needs_avx512();
}

// y[t,:] = (x[t,:] - mean) * rsqrt(var + eps) * gamma + beta.   Three passes over a row in L1:
// 8 * dim bytes moved.
void layer_norm_avx512(const LayerNormDesc& desc, const LayerNormArgs& args) {
  for_rows(args.stream, args.rows, desc.dim / 5, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.x_stride;
      const auto count = static_cast<float>(desc.dim);
      const float mean = sum_of(x, desc.dim) / count;
      const float squares = squares_of(x, mean, desc.dim);
      const float factor = 1.0f / std::sqrt(squares / count + desc.eps);
      finish(args, x, mean, factor, args.y + r * args.y_stride, desc.dim);
    }
  });
}

}  // namespace kvern::kernels::cpu
