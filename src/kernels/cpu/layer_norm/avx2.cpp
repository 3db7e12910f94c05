#include <cmath>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/layer_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

[[gnu::target("avx2")]] float sum_of(const float* x, int64_t dim) {
  __m256 low = _mm256_setzero_ps();  // lanes 0-7
  __m256 high = _mm256_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    low = _mm256_add_ps(low, load_first(x + i, dim - i));
    high = _mm256_add_ps(high, load_first(x + i + 8, dim - i - 8));
  }
  return fold_lanes(low, high);
}

// (x - mean)^2 of the first `count` of 8, zeros behind them.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 square(const float* x, __m256 mean,
                                                                 int64_t count) {
  __m256 d = _mm256_sub_ps(load_first(x, count), mean);
  if (count < 8) d = _mm256_and_ps(d, _mm256_castsi256_ps(lanes8(0, count)));
  return _mm256_mul_ps(d, d);
}

[[gnu::target("avx2")]] float squares_of(const float* x, float mean, int64_t dim) {
  const __m256 m = _mm256_set1_ps(mean);
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  for (int64_t i = 0; i < dim; i += 16) {
    low = _mm256_add_ps(low, square(x + i, m, dim - i));
    high = _mm256_add_ps(high, square(x + i + 8, m, dim - i - 8));
  }
  return fold_lanes(low, high);
}

[[gnu::target("avx2")]] void finish(const LayerNormArgs& args, const float* x, float mean,
                                    float factor, float* y, int64_t dim) {
  const __m256 m = _mm256_set1_ps(mean);
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t i = 0; i < dim; i += 8) {
    const int64_t left = dim - i;
    const __m256 centred = _mm256_sub_ps(load_first(x + i, left), m);
    __m256 v = _mm256_mul_ps(_mm256_mul_ps(centred, f), load_first(args.gamma + i, left));
    if (args.beta != nullptr) v = _mm256_add_ps(v, load_first(args.beta + i, left));
    store_first(y + i, left, v);
  }
}

}  // namespace

Verdict supports_layer_norm_avx2(const LayerNormDesc&) {
  return needs_avx2();
}

// As by AVX-512, with the same bits: 16 lanes are two vectors.
void layer_norm_avx2(const LayerNormDesc& desc, const LayerNormArgs& args) {
  for_rows(args.stream, args.rows, desc.dim * 2 / 5, [&](int64_t begin, int64_t end) {
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
