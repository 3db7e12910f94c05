#include <cmath>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/rms_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

// Lanes 0-7 and 8-15 of the sum of squares.
struct Lanes {
  __m256 low, high;
};

[[gnu::target("avx2"), gnu::always_inline]] inline void add_squares(Lanes& lanes, __m256 low,
                                                                    __m256 high) {
  lanes.low = _mm256_add_ps(lanes.low, _mm256_mul_ps(low, low));
  lanes.high = _mm256_add_ps(lanes.high, _mm256_mul_ps(high, high));
}

// x + residual into sum, and the sum of squares of what was written.
[[gnu::target("avx2")]] float add_and_square(const float* x, const float* residual, float* sum,
                                             int64_t dim) {
  Lanes lanes = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i < dim; i += 16) {
    const int64_t left = dim - i;
    const __m256 low = _mm256_add_ps(load_first(x + i, left), load_first(residual + i, left));
    const __m256 high =
        _mm256_add_ps(load_first(x + i + 8, left - 8), load_first(residual + i + 8, left - 8));
    store_first(sum + i, left, low);
    store_first(sum + i + 8, left - 8, high);
    add_squares(lanes, low, high);
  }
  return fold_lanes(lanes.low, lanes.high);
}

[[gnu::target("avx2")]] float square(const float* x, int64_t dim) {
  Lanes lanes = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i < dim; i += 16) {
    add_squares(lanes, load_first(x + i, dim - i), load_first(x + i + 8, dim - i - 8));
  }
  return fold_lanes(lanes.low, lanes.high);
}

[[gnu::target("avx2")]] void scale(const float* x, float factor, const float* gamma, float* y,
                                   int64_t dim) {
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t i = 0; i < dim; i += 8) {
    const __m256 scaled = _mm256_mul_ps(load_first(x + i, dim - i), f);
    store_first(y + i, dim - i, _mm256_mul_ps(scaled, load_first(gamma + i, dim - i)));
  }
}

float factor_of(const RmsNormDesc& desc, float squares) {
  return 1.0f / std::sqrt(squares / static_cast<float>(desc.dim) + desc.eps);
}

}  // namespace

Verdict supports_rms_norm_avx2(const RmsNormDesc&) {
  return needs_avx2();
}

// As by AVX-512, with the same bits: 16 lanes are two vectors.
void rms_norm_avx2(const RmsNormDesc& desc, const RmsNormArgs& args) {
  for_rows(args.stream, args.rows, desc.row_dim() / 3, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.x_stride;
      float* y = args.y + r * args.y_stride;
      if (desc.has_residual) {
        float* sum = args.sum + r * args.sum_stride;
        const float squares =
            add_and_square(x, args.residual + r * args.residual_stride, sum, desc.dim);
        scale(sum, factor_of(desc, squares), args.gamma, y, desc.dim);
        continue;
      }
      for (int64_t h = 0; h < desc.heads; ++h, x += desc.dim, y += desc.dim) {
        scale(x, factor_of(desc, square(x, desc.dim)), args.gamma, y, desc.dim);
      }
    }
  });
}

}  // namespace kvern::kernels::cpu
