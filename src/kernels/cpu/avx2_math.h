// Vector functions shared by AVX2 kernels, with the bits of their namesakes in avx512_math.h.
// Callers carry the same target attribute.
#pragma once

#include <cstdint>

#include "kernels/cpu/exp_constants.h"
#include "kernels/cpu/intrinsics.h"

namespace kvern::kernels::cpu {

// All ones in the lanes [begin, end) of 8; begin may be negative, end above 8.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i lanes8(int64_t begin, int64_t end) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto clamped = [](int64_t n) { return static_cast<int>(n < 0 ? 0 : n > 8 ? 8 : n); };
  const __m256i from = _mm256_cmpgt_epi32(lane, _mm256_set1_epi32(clamped(begin) - 1));
  return _mm256_and_si256(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(clamped(end)), lane));
}

// The first `count` of 8 floats, zeros behind them; touches no byte of the others.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 load_first(const float* x,
                                                                     int64_t count) {
  return count >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, lanes8(0, count));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void store_first(float* y, int64_t count,
                                                                    __m256 x) {
  if (count >= 8) return _mm256_storeu_ps(y, x);
  _mm256_maskstore_ps(y, lanes8(0, count), x);
}

// 2^n of integers in [-126, 127].
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 power_of_2(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// x - n ln2, with ln2 in two parts.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 reduce_exp(__m256 x, __m256 n) {
  const __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2High), x);
  return _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2Low), r);
}

// exp(r) - 1 for |r| <= ln2 / 2.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 expm1_near_0(__m256 r) {
  __m256 p = _mm256_set1_ps(kExpm1[0]);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpm1[1]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpm1[2]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpm1[3]));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpm1[4]));
  return _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
}

[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 exp_f32(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(kExpLowest), x);  // the second operand wins when one is NaN
  x = _mm256_min_ps(_mm256_set1_ps(kExpHighest), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(kLog2E)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 p = _mm256_add_ps(expm1_near_0(reduce_exp(x, n)), _mm256_set1_ps(1.0f));
  // 2^n in two factors, the first of them exact: one rounding where the result is denormal.
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256 first = _mm256_mul_ps(p, power_of_2(half));
  return _mm256_mul_ps(first, power_of_2(_mm256_sub_epi32(whole, half)));
}

[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 tanh_f32(__m256 x) {
  const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  const __m256 y =
      _mm256_min_ps(_mm256_set1_ps(kTanhFlat), _mm256_mul_ps(size, _mm256_set1_ps(2.0f)));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(y, _mm256_set1_ps(kLog2E)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 p = expm1_near_0(reduce_exp(y, n));
  const __m256 power = power_of_2(_mm256_cvtps_epi32(n));
  const __m256 e = _mm256_fmadd_ps(p, power, _mm256_sub_ps(power, _mm256_set1_ps(1.0f)));
  return _mm256_or_ps(_mm256_div_ps(e, _mm256_add_ps(e, _mm256_set1_ps(2.0f))), sign);
}

// Lanes of a pair folded 8, 4, 2, 1, as fold_lanes of 16.
[[gnu::target("avx2"), gnu::always_inline]] inline float fold_lanes(__m256 low, __m256 high) {
  const __m256 v8 = _mm256_add_ps(low, high);
  const __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_add_ss(v2, _mm_shuffle_ps(v2, v2, 1)));
}

[[gnu::target("avx2"), gnu::always_inline]] inline float largest_lane(__m256 v) {
  const __m128 v4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 v2 = _mm_max_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_max_ss(v2, _mm_shuffle_ps(v2, v2, 1)));
}

// bf16 of each lane, round to nearest even in integers, as f32_to_bf16.
[[gnu::target("avx2"), gnu::always_inline]] inline __m128i bf16_bits(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i value = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
}

}  // namespace kvern::kernels::cpu
