// Eight rows of a packed line as f32, element by element of their step. All exact.
#pragma once

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/pack/tile_layout.h"

namespace kvern::kernels::cpu {

// Nibble of a row's word that holds element e of its step.
inline constexpr int kNibbleOf[8] = {0, 4, 1, 5, 2, 6, 3, 7};

struct FmaBf16 {
  static constexpr int kElements = 2;
  [[gnu::target("avx2"), gnu::always_inline]] static __m256 element(__m256i words, int e) {
    return _mm256_castsi256_ps(
        e == 0 ? _mm256_slli_epi32(words, 16)
               : _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};

struct FmaF16 {
  static constexpr int kElements = 2;
  [[gnu::target("avx2,f16c"), gnu::always_inline]] static __m256 element(__m256i words, int e) {
    const __m256i halves =
        _mm256_shuffle_epi8(words, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                       0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
    const __m256i sorted = _mm256_permute4x64_epi64(halves, _MM_SHUFFLE(3, 1, 2, 0));
    return _mm256_cvtph_ps(e == 0 ? _mm256_castsi256_si128(sorted)
                                  : _mm256_extracti128_si256(sorted, 1));
  }
};

// A byte at the top of its word is the code times 2^24.
struct FmaI8 {
  static constexpr int kElements = 4;
  [[gnu::target("avx2"), gnu::always_inline]] static __m256 element(__m256i words, int e) {
    if (e == 3) {
      return _mm256_cvtepi32_ps(
          _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xff000000u))));
    }
    const auto at = [e](int row) { return static_cast<int>(0x00808080u | (4u * row + e) << 24); };
    const __m256i top = _mm256_broadcastsi128_si256(_mm_setr_epi32(at(0), at(1), at(2), at(3)));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(words, top));
  }
};

// A nibble in place is the code times 16^q; the topmost would be a sign, and is shifted down.
struct FmaI4 {
  static constexpr int kElements = 8;
  [[gnu::target("avx2"), gnu::always_inline]] static __m256 element(__m256i words, int e) {
    const int q = kNibbleOf[e];
    return _mm256_cvtepi32_ps(q == 7 ? _mm256_srli_epi32(words, 28)
                                     : _mm256_and_si256(words, _mm256_set1_epi32(15 << (4 * q))));
  }
};

// Signed int4 codes plus 8 in place; others as they are.
template <class Codes>
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_words(const std::byte* from,
                                                                      __m256i flip) {
  const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  if constexpr (Codes::kElements == 8) return _mm256_xor_si256(words, flip);
  return words;
}

// Eight scales or minima as f32.
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline __m256 load_8(DType type,
                                                                      const std::byte* from,
                                                                      int half) {
  if (type == DType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from) + 8 * half);
  }
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + half));
}

}  // namespace kvern::kernels::cpu
