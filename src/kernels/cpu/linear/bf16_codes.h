// One line of packed weights (16 rows x 4 bytes) as operands of vdpbf16ps: in each, lane r holds a
// pair of bf16 of row r. All exact: integers of magnitude up to 256 have no rounding in bf16.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/pack/tile_layout.h"

namespace kvern::kernels::cpu {

struct Bf16Codes {
  static constexpr int kOperands = 1;
  [[gnu::target("avx512f"), gnu::always_inline]] explicit Bf16Codes(bool /*has_min*/) {}
  [[gnu::target("avx512f"), gnu::always_inline]] void expand(__m512i line, __m512i* to) const {
    to[0] = line;
  }
};

// Nibble j of a row's words is the pair (2j, 2j + 1). A look-up by words takes 5 bits of index: the
// table's upper half repeats the lower, so the next nibble's lowest bit needs no masking.
struct I4Codes {
  static constexpr int kOperands = 4;
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] explicit I4Codes(bool has_min) {
    alignas(64) uint16_t words[32];
    for (int i = 0; i < 32; ++i) {
      const int code = i % 16;
      words[i] = f32_to_bf16(static_cast<float>(!has_min && code > 7 ? code - 16 : code));
    }
    table_ = _mm512_load_si512(words);
  }
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] void expand(__m512i line,
                                                                      __m512i* to) const {
    to[0] = _mm512_permutexvar_epi16(line, table_);
    to[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 4), table_);
    to[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 8), table_);
    to[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 12), table_);
  }

 private:
  __m512i table_;
};

// Through f32, whose upper half is the bf16. Pairs (0, 2) and (1, 3) of a row's four codes.
struct I8Codes {
  static constexpr int kOperands = 2;
  [[gnu::target("avx512f"), gnu::always_inline]] explicit I8Codes(bool /*has_min*/) {}
  [[gnu::target("avx512f"), gnu::always_inline]] void expand(__m512i line, __m512i* to) const {
    const __m512i k0 = as_f32(_mm512_slli_epi32(line, 24));
    const __m512i k1 = as_f32(_mm512_slli_epi32(line, 16));
    const __m512i k2 = as_f32(_mm512_slli_epi32(line, 8));
    const __m512i k3 = as_f32(line);
    to[0] = pair(k0, k2);
    to[1] = pair(k1, k3);
  }

 private:
  // The f32 bits of the top byte of each lane as a signed integer.
  [[gnu::target("avx512f"), gnu::always_inline]] static __m512i as_f32(__m512i v) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_srai_epi32(v, 24)));
  }
  // low's upper half below high's: bits of `high` where the mask is set.
  [[gnu::target("avx512f"), gnu::always_inline]] static __m512i pair(__m512i low, __m512i high) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return _mm512_ternarylogic_epi32(upper, high, _mm512_srli_epi32(low, 16), 0xca);
  }
};

// 16 scales or minima as f32.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 load_scales(int64_t scale_bytes,
                                                                         const std::byte* from) {
  if (scale_bytes == 4) return _mm512_loadu_ps(from);
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace kvern::kernels::cpu
