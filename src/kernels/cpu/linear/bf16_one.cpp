#include <immintrin.h>

#include <algorithm>

#include "kernels/cpu/linear/bf16.h"
#include "kernels/cpu/linear/bf16_codes.h"
#include "kernels/cpu/linear/bf16_store.h"

namespace kvern::kernels::cpu {
namespace {

struct TilePair {
  const std::byte* tile[2];
};

// Adds the dot products of `steps` lines of two tiles to sums.
template <class Codes>
[[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline void dot_steps(
    const Codes& codes, const std::byte* w0, const std::byte* w1, const uint32_t* pairs,
    int64_t steps, __m512* sum) {
  for (int64_t s = 0; s < steps; ++s) {
    __m512i a[Codes::kOperands];
    __m512i b[Codes::kOperands];
    codes.expand(_mm512_load_si512(w0 + s * kLineBytes), a);
    codes.expand(_mm512_load_si512(w1 + s * kLineBytes), b);
#pragma GCC unroll 4
    for (int i = 0; i < Codes::kOperands; ++i) {
      const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(pairs[s * Codes::kOperands + i]));
      sum[0] = _mm512_dpbf16_ps(sum[0], (__m512bh)a[i], x);
      sum[1] = _mm512_dpbf16_ps(sum[1], (__m512bh)b[i], x);
    }
  }
}

// Two tiles at a time: the groups' sums do not depend on each other, so that the processor overlaps
// several of them; more tiles in flight gained nothing.
template <class Codes, bool kScaled, bool kMin>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void dot_tiles(const TileLayout& l,
                                                              const TilePair& w,
                                                              const Bf16Inputs& inputs, __m512* y) {
  const Codes codes(kMin);
  y[0] = y[1] = _mm512_setzero_ps();
  const int64_t groups = std::max<int64_t>(1, l.groups);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t step = g * l.steps_per_group;
    const int64_t steps = std::min(l.steps_per_group, l.steps - step);
    __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    dot_steps(codes, w.tile[0] + l.codes_at(step), w.tile[1] + l.codes_at(step),
              inputs.pairs + step * Codes::kOperands, steps, sum);
    for (int t = 0; t < 2; ++t) {
      if constexpr (kScaled) {
        y[t] = _mm512_fmadd_ps(load_scales(l.scale_bytes, w.tile[t] + l.scale_at(g)), sum[t], y[t]);
      } else {
        y[t] = sum[t];
      }
      if constexpr (kMin) {
        y[t] = _mm512_fmadd_ps(load_scales(l.scale_bytes, w.tile[t] + l.min_at(g)),
                               _mm512_set1_ps(inputs.sums[g]), y[t]);
      }
    }
  }
}

using DotTiles = void (*)(const TileLayout&, const TilePair&, const Bf16Inputs&, __m512*);

DotTiles pick(const LinearDesc& desc) {
  if (desc.storage == DType::kBf16) return dot_tiles<Bf16Codes, false, false>;
  if (desc.storage == DType::kI8) {
    return desc.has_min ? dot_tiles<I8Codes, true, true> : dot_tiles<I8Codes, true, false>;
  }
  return desc.has_min ? dot_tiles<I4Codes, true, true> : dot_tiles<I4Codes, true, false>;
}

}  // namespace

[[gnu::target("avx512f")]] void linear_bf16_one(const LinearDesc& desc, const TileLayout& layout,
                                                const LinearArgs& args, const Bf16Inputs& inputs,
                                                int64_t first, int64_t last) {
  const DotTiles dot = pick(desc);
  for (int64_t tile = first; tile < last; tile += 2) {
    const std::byte* w = args.w + tile * layout.tile_bytes;
    const bool second = tile + 1 < last;
    __m512 y[2];
    dot(layout, {{w, second ? w + layout.tile_bytes : w}}, inputs, y);
    store_tile(desc, args, 0, tile, y[0]);
    if (second) store_tile(desc, args, 0, tile + 1, y[1]);
  }
}

}  // namespace kvern::kernels::cpu
