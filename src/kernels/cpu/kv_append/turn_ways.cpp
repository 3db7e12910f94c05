#include "kernels/cpu/kv_append/turn_ways.h"

#include <algorithm>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/avx512_math.h"

namespace kvern::kernels::cpu {

// Of a pair (a, b): (a, b) * cos plus (-b, a) * sin, which rounds as a * cos - b * sin does.
[[gnu::target("avx512f,avx512dq")]] void turn_pairs_avx512(const float* x, const float* cos,
                                                           const float* sin, int64_t head_dim,
                                                           int64_t rotary_dim, float* y) {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512 minus = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000));
  for (int64_t i = 0; i < rotary_dim; i += 16) {
    const __mmask16 mask = first_lanes(rotary_dim - i);
    const __mmask16 half = first_lanes(std::min<int64_t>((rotary_dim - i) / 2, 8));
    const __m512 pairs = _mm512_maskz_loadu_ps(mask, x + i);
    const __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, cos + i / 2));
    const __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(half, sin + i / 2));
    const __m512 across = _mm512_mul_ps(_mm512_permute_ps(pairs, 0xb1), s);
    _mm512_mask_storeu_ps(y + i, mask,
                          _mm512_add_ps(_mm512_mul_ps(pairs, c), _mm512_xor_ps(across, minus)));
  }
  if (y != x) std::copy(x + rotary_dim, x + head_dim, y + rotary_dim);
}

[[gnu::target("avx2")]] void turn_halves_avx2(const float* x, const float* cos, const float* sin,
                                              int64_t head_dim, int64_t rotary_dim, float* y) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; i += 8) {
    const int64_t count = half - i;
    const __m256 a = load_first(x + i, count);
    const __m256 b = load_first(x + half + i, count);
    const __m256 c = load_first(cos + i, count);
    const __m256 s = load_first(sin + i, count);
    store_first(y + i, count, _mm256_sub_ps(_mm256_mul_ps(a, c), _mm256_mul_ps(b, s)));
    store_first(y + half + i, count, _mm256_add_ps(_mm256_mul_ps(b, c), _mm256_mul_ps(a, s)));
  }
  if (y != x) std::copy(x + rotary_dim, x + head_dim, y + rotary_dim);
}

[[gnu::target("avx2")]] void turn_pairs_avx2(const float* x, const float* cos, const float* sin,
                                             int64_t head_dim, int64_t rotary_dim, float* y) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  for (int64_t i = 0; i < rotary_dim; i += 8) {
    const int64_t count = rotary_dim - i;
    const int64_t half = std::min<int64_t>(count / 2, 4);
    const __m256 pairs = load_first(x + i, count);
    const __m256 c = _mm256_permutevar8x32_ps(load_first(cos + i / 2, half), twice);
    const __m256 s = _mm256_permutevar8x32_ps(load_first(sin + i / 2, half), twice);
    const __m256 across = _mm256_mul_ps(_mm256_permute_ps(pairs, 0xb1), s);
    store_first(y + i, count, _mm256_addsub_ps(_mm256_mul_ps(pairs, c), across));
  }
  if (y != x) std::copy(x + rotary_dim, x + head_dim, y + rotary_dim);
}

}  // namespace kvern::kernels::cpu
