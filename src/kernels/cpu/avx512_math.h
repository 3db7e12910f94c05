// Vector functions shared by AVX-512 kernels. Callers carry the same target attribute.
#pragma once

#include <cstdint>

#include "kernels/cpu/exp_constants.h"
#include "kernels/cpu/intrinsics.h"

namespace kvern::kernels::cpu {

// The first `count` lanes; all 16 from 16 on, none below 1.
inline __mmask16 first_lanes(int64_t count) {
  if (count >= 16) return 0xffff;
  return count <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << count) - 1u);
}

// x - n ln2, with ln2 in two parts.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 reduce_exp(__m512 x, __m512 n) {
  const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2High), x);
  return _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2Low), r);
}

// exp(r) - 1 for |r| <= ln2 / 2.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 expm1_near_0(__m512 r) {
  __m512 p = _mm512_set1_ps(kExpm1[0]);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpm1[1]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpm1[2]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpm1[3]));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpm1[4]));
  return _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
}

// exp(x) within 9e-8 of its size. Below -104 it is 0, above 89 infinity; NaN stays NaN.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 exp_f32(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(kExpLowest), x);  // the second operand wins when one is NaN
  x = _mm512_min_ps(_mm512_set1_ps(kExpHighest), x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(kLog2E)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 p = expm1_near_0(reduce_exp(x, n));
  return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
}

// tanh(x) = e / (e + 2) of e = exp(2|x|) - 1, which is taken as such: near 0 nothing cancels.
// Within 2e-7 of its size; NaN stays NaN.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 tanh_f32(__m512 x) {
  const __m512 sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
  const __m512 y = _mm512_min_ps(_mm512_set1_ps(kTanhFlat),
                                 _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(2.0f)));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(y, _mm512_set1_ps(kLog2E)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 p = expm1_near_0(reduce_exp(y, n));
  const __m512 power = _mm512_scalef_ps(_mm512_set1_ps(1.0f), n);
  const __m512 e = _mm512_fmadd_ps(p, power, _mm512_sub_ps(power, _mm512_set1_ps(1.0f)));
  return _mm512_or_ps(_mm512_div_ps(e, _mm512_add_ps(e, _mm512_set1_ps(2.0f))), sign);
}

// Lanes folded 8, 4, 2, 1: lane i + lane i + width.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline float fold_lanes(__m512 v) {
  const __m256 v8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v8), _mm256_extractf128_ps(v8, 1));
  const __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_add_ss(v2, _mm_shuffle_ps(v2, v2, 1)));
}

// bf16 of each lane, round to nearest even in integers: unlike VCVTNEPS2BF16 it keeps denormals,
// and so gives the same bits as f32_to_bf16.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m256i bf16_bits(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, nan, quiet));
}

}  // namespace kvern::kernels::cpu
