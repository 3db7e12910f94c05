// One line of packed weights (16 rows x 4 bytes) as operands of vdpbf16ps: in each, lane r holds a
// pair of bf16 of row r. All exact: integers of magnitude up to 256 have no rounding in bf16.
#pragma once

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/pack/tile_layout.h"

namespace kvern::kernels::cpu {

struct Bf16Codes {
  static constexpr int kOperands = 1;
  static constexpr float kUnit = 1.0f;
  [[gnu::target("avx512f"), gnu::always_inline]] explicit Bf16Codes(bool /*has_min*/) {}
  [[gnu::target("avx512f"), gnu::always_inline]] void expand(__m512i line, __m512i* to) const {
    to[0] = line;
  }
};

// Nibble j of a row's words is the pair (2j, 2j + 1). A look-up by words takes 5 bits of index: the
// table's upper half repeats the lower, so the next nibble's lowest bit needs no masking.
struct I4Codes {
  static constexpr int kOperands = 4;
  static constexpr float kUnit = 1.0f;
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

// Through f32, whose upper half is the bf16. A byte at the top of a lane is the code times 2^24,
// which spares a shift back; scales are taken times 2^-24 instead, exactly. Pairs (0, 2) and (1, 3)
// of a row's four codes.
struct I8Codes {
  static constexpr int kOperands = 2;
  static constexpr float kUnit = 0x1p-24f;
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] explicit I8Codes(bool /*has_min*/) {
    for (int i = 0; i < 3; ++i) {
      // Bytes 4 r + i to 4 r + 3, zeros elsewhere.
      const auto at = [&](int r) { return static_cast<int>(0x00808080u | (4u * r + i) << 24); };
      top_[i] = _mm512_broadcast_i32x4(_mm_setr_epi32(at(0), at(1), at(2), at(3)));
    }
    alignas(64) uint16_t words[32];
    for (int i = 0; i < 16; ++i) {
      words[2 * i] = static_cast<uint16_t>(2 * i + 1);
      words[2 * i + 1] = static_cast<uint16_t>(32 + 2 * i + 1);
    }
    upper_halves_ = _mm512_load_si512(words);
  }
  [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] void expand(__m512i line,
                                                                      __m512i* to) const {
    const __m512i top_byte = _mm512_set1_epi32(static_cast<int>(0xff000000u));
    const __m512i k0 = as_f32(_mm512_shuffle_epi8(line, top_[0]));
    const __m512i k1 = as_f32(_mm512_shuffle_epi8(line, top_[1]));
    const __m512i k2 = as_f32(_mm512_shuffle_epi8(line, top_[2]));
    const __m512i k3 = as_f32(_mm512_and_si512(line, top_byte));
    to[0] = _mm512_permutex2var_epi16(k0, upper_halves_, k2);
    to[1] = _mm512_permutex2var_epi16(k1, upper_halves_, k3);
  }

 private:
  [[gnu::target("avx512f"), gnu::always_inline]] static __m512i as_f32(__m512i v) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(v));
  }
  __m512i top_[3];
  __m512i upper_halves_;
};

// Into L2. Beyond the weight's end is fine: a prefetch never faults.
[[gnu::always_inline]] inline void prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
}

// 16 scales or minima as f32.
template <DType kScale>
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 load_scales(const std::byte* from) {
  if constexpr (kScale == DType::kF32) return _mm512_loadu_ps(from);
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace kvern::kernels::cpu
