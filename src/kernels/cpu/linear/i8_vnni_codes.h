// One line of packed integer codes as unsigned operands of vpdpbusd: signed codes plus 128 or 8,
// which the inputs' starts take back.
#pragma once

#include "kernels/cpu/intrinsics.h"

namespace kvern::kernels::cpu {

struct VnniI8 {
  static constexpr int kOperands = 1;
  [[gnu::target("avx512f"), gnu::always_inline]] explicit VnniI8(bool /*has_min*/) {}
  [[gnu::target("avx512f"), gnu::always_inline]] void expand(__m512i line, __m512i* to) const {
    to[0] = _mm512_xor_si512(line, _mm512_set1_epi32(static_cast<int>(0x80808080u)));
  }
};

struct VnniI4 {
  static constexpr int kOperands = 2;
  [[gnu::target("avx512f"), gnu::always_inline]] explicit VnniI4(bool has_min)
      : flip_(_mm512_set1_epi32(has_min ? 0 : static_cast<int>(0x08080808u))) {}
  // (line & 15) ^ 8 is the code plus 8; one instruction with the truth table (a & b) ^ c.
  [[gnu::target("avx512f"), gnu::always_inline]] void expand(__m512i line, __m512i* to) const {
    const __m512i nibbles = _mm512_set1_epi32(0x0f0f0f0f);
    to[0] = _mm512_ternarylogic_epi32(line, nibbles, flip_, 0x6a);
    to[1] = _mm512_ternarylogic_epi32(_mm512_srli_epi32(line, 4), nibbles, flip_, 0x6a);
  }

 private:
  __m512i flip_;
};

// sum += products of unsigned codes and signed inputs, four per lane. The intrinsic would do, but
// g++ 12 copies its sums at every step and spills them (24 of them: 155 GFLOP/s against 235).
[[gnu::target("avx512f,avx512vnni"), gnu::always_inline]] inline void add_dots(__m512i& sum,
                                                                               __m512i codes,
                                                                               __m512i inputs) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(inputs));
}

// 16 scales or minima as f32.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 load_16(DType type,
                                                                     const std::byte* from) {
  if (type == DType::kF32) return _mm512_loadu_ps(from);
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

}  // namespace kvern::kernels::cpu
