// Rows of pages into registers.
#pragma once

#include <cstring>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/kv_attention/split.h"

namespace kvern::kernels::cpu::avx2 {

// `count` elements of kBytes each, at most 8 of them, zeros behind; touches no byte of others.
template <int64_t kBytes>
[[gnu::target("avx2"), gnu::always_inline]] inline __m128i load_bytes(const std::byte* from,
                                                                      int64_t count) {
  if (count >= 8) {
    const auto* at = reinterpret_cast<const __m128i*>(from);
    return kBytes == 2 ? _mm_loadu_si128(at) : _mm_loadl_epi64(at);
  }
  alignas(16) std::byte few[16] = {};
  if (count > 0) std::memcpy(few, from, static_cast<size_t>(kBytes * count));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(few));
}

// Elements [i, i + 8) of a row as f32, zero from i + count on. `scale` is that of their group.
template <DType kStorage>
[[gnu::target("avx2,fma,f16c"), gnu::always_inline]] inline __m256 load8(const std::byte* codes,
                                                                         const float* scale,
                                                                         int64_t i, int64_t count) {
  if constexpr (kStorage == DType::kF32) {
    return load_first(reinterpret_cast<const float*>(codes) + i, count);
  } else if constexpr (kStorage == DType::kF16) {
    return _mm256_cvtph_ps(load_bytes<2>(codes + 2 * i, count));
  } else if constexpr (kStorage == DType::kBf16) {
    const __m256i wide = _mm256_cvtepu16_epi32(load_bytes<2>(codes + 2 * i, count));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  } else {
    const __m128i code = load_bytes<1>(codes + i, count);
    if constexpr (kStorage == DType::kI8) {
      return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(code)),
                           _mm256_broadcast_ss(scale));
    } else {  // an f16 of the same exponent and mantissa is 256 times smaller
      const __m128i wide = _mm_slli_epi16(_mm_cvtepi8_epi16(code), 7);
      const __m128i half = _mm_and_si128(wide, _mm_set1_epi16(-0x4001));
      return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_broadcast_ss(scale));
    }
  }
}

}  // namespace kvern::kernels::cpu::avx2
