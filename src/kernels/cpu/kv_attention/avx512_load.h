// Rows of pages into registers.
#pragma once

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/kv_attention/split.h"

namespace kvern::kernels::cpu::avx512 {

// Elements [i, i + 16) of a row as f32, zero where the mask is. `scale` is that of
// their group.
template <DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl"), gnu::always_inline]] inline __m512 load16(
    const std::byte* codes, const float* scale, int64_t i, __mmask16 mask) {
  if constexpr (kStorage == DType::kF32) {
    return _mm512_maskz_loadu_ps(mask, codes + 4 * i);
  } else if constexpr (kStorage == DType::kF16) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, codes + 2 * i));
  } else if constexpr (kStorage == DType::kBf16) {
    const __m256i half = _mm256_maskz_loadu_epi16(mask, codes + 2 * i);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  } else if constexpr (kStorage == DType::kF8E4M3) {
    // Its exponent and mantissa are those of an f16 256 times smaller: shifted into place, with the
    // second copy of the sign taken out. Codes are never NaN: a group that is not finite has a NaN
    // scale.
    const __m256i code = _mm256_cvtepi8_epi16(_mm_maskz_loadu_epi8(mask, codes + i));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(code, 7), _mm256_set1_epi16(-0x4001));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(*scale));
  } else {
    const __m512i code = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, codes + i));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(code), _mm512_set1_ps(*scale));
  }
}

}  // namespace kvern::kernels::cpu::avx512
