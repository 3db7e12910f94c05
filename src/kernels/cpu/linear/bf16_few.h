// The linear for a few tokens: codes are expanded in registers, a tile is read once and the next
// ones are already on their way. Included by one file per kind of codes, which instantiates it.
#pragma once

#include <algorithm>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/bf16.h"
#include "kernels/cpu/linear/bf16_codes.h"

namespace kvern::kernels::cpu {

// Tiles that follow each other in memory.
struct Reading {
  const std::byte* tile;
  int64_t ahead_bytes;    // from here to the tiles that this thread most likely reads next
  const uint32_t* pairs;  // [pairs][tokens]
  const float* xsums;     // [groups][tokens]
  float* y;               // [tiles][tokens][16]
};

// On prefetch: a line of codes takes some 15 instructions, so the processor's window holds few
// lines, and its prefetchers stop at the end of each page. So while four tiles are read, the next
// four come to L2: i4 3072x576 on one thread 32 GB/s, 0.94 of plain reading; without 13; into
// L1 14.
// Adds a line's dot products with kTokens inputs to as many sums.
template <class Codes, int kTokens>
[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline void dot_line(
    const Codes& codes, const std::byte* line, const uint32_t* pairs, __m512* sum) {
  __m512i operands[Codes::kOperands];
  codes.expand(_mm512_load_si512(line), operands);
#pragma GCC unroll 4
  for (int i = 0; i < Codes::kOperands; ++i) {
#pragma GCC unroll 8
    for (int m = 0; m < kTokens; ++m) {
      const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(pairs[i * kTokens + m]));
      sum[m] = _mm512_dpbf16_ps(sum[m], (__m512bh)operands[i], x);
    }
  }
}

// y += scale * sum (+ min * xsum) of group g, whose scales and minima lie in the tile's planes.
template <class Codes, DType kScale, bool kMin, int kTokens>
[[gnu::target("avx512f"), gnu::always_inline]] inline void add_group(
    const std::byte* tile, int64_t min_offset, int64_t g, int64_t ahead_bytes, const __m512* sum,
    const float* xsums, __m512* y) {
  constexpr int64_t kBytes = kTileRows * (kScale == DType::kF32 ? 4 : 2);
  const std::byte* scales = tile + g * kBytes;
  const __m512 scale = _mm512_mul_ps(load_scales<kScale>(scales), _mm512_set1_ps(Codes::kUnit));
  prefetch(scales + ahead_bytes);
  __m512 min = scale;
  if constexpr (kMin) {
    min = load_scales<kScale>(scales + min_offset);
    prefetch(scales + min_offset + ahead_bytes);
  }
#pragma GCC unroll 8
  for (int m = 0; m < kTokens; ++m) {
    y[m] = _mm512_fmadd_ps(scale, sum[m], y[m]);
    if constexpr (kMin) y[m] = _mm512_fmadd_ps(min, _mm512_set1_ps(xsums[g * kTokens + m]), y[m]);
  }
}

// A dot product waits 6 cycles for the one before it: enough tiles side by side hide that, and four
// streams keep more of the memory busy than one (four groups of one tile: 11 GB/s where this has
// 20 without prefetch).
template <class Codes, DType kScale, bool kMin, int kTiles, int kTokens>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void dot_tiles(const TileLayout& layout,
                                                              const Reading& reading) {
  constexpr int kSums = kTiles * kTokens;
  const TileLayout l = layout;
  const Reading in = reading;
  const Codes codes(kMin);
  const int64_t groups = std::max<int64_t>(1, l.groups);
  __m512 y[kSums];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) y[i] = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * l.steps_per_group;
    const int64_t last = std::min(l.steps, first + l.steps_per_group);
    const std::byte* line = in.tile + l.codes_at(first);
    const uint32_t* pairs = in.pairs + first * Codes::kOperands * kTokens;
    __m512 sum[kSums];
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_setzero_ps();
    for (int64_t s = first; s < last; ++s) {
#pragma GCC unroll 4
      for (int t = 0; t < kTiles; ++t) {
        prefetch(line + t * l.tile_bytes + in.ahead_bytes);
        dot_line<Codes, kTokens>(codes, line + t * l.tile_bytes, pairs, sum + t * kTokens);
      }
      line += kLineBytes;
      pairs += Codes::kOperands * kTokens;
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      if constexpr (Codes::kOperands > 1) {
        add_group<Codes, kScale, kMin, kTokens>(in.tile + t * l.tile_bytes, l.min_offset, g,
                                                in.ahead_bytes, sum + t * kTokens, in.xsums,
                                                y + t * kTokens);
      }
    }
    if constexpr (Codes::kOperands == 1) {
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i) y[i] = sum[i];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) _mm512_store_ps(in.y + i * kTileRows, y[i]);
}

// For a number of tokens: the tiles that go side by side, and the rest one by one.
struct Dots {
  int tiles;
  void (*side_by_side)(const TileLayout&, const Reading&);
  void (*one)(const TileLayout&, const Reading&);
};

template <class Codes, DType kScale, bool kMin, int kTokens>
constexpr Dots make_dots() {
  constexpr int kTiles = kTokens <= 2 ? 4 : kTokens <= 4 ? 2 : 1;
  return {kTiles, dot_tiles<Codes, kScale, kMin, kTiles, kTokens>,
          dot_tiles<Codes, kScale, kMin, 1, kTokens>};
}

template <class Codes, DType kScale, bool kMin>
constexpr Dots kDots[kMaxFewTokens] = {
    make_dots<Codes, kScale, kMin, 1>(), make_dots<Codes, kScale, kMin, 2>(),
    make_dots<Codes, kScale, kMin, 3>(), make_dots<Codes, kScale, kMin, 4>(),
    make_dots<Codes, kScale, kMin, 5>(), make_dots<Codes, kScale, kMin, 6>(),
    make_dots<Codes, kScale, kMin, 7>(), make_dots<Codes, kScale, kMin, 8>()};

const Dots& few_bf16(int64_t tokens);
const Dots& few_i8(const LinearDesc& desc, int64_t tokens);
const Dots& few_i4(const LinearDesc& desc, int64_t tokens);

}  // namespace kvern::kernels::cpu
