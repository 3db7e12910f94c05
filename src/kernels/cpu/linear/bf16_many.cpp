#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/bf16.h"
#include "kernels/cpu/linear/bf16_codes.h"
#include "kernels/cpu/linear/bf16_store.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kStretch = 256;                       // elements of K expanded at once
constexpr int64_t kStretchPairs = kStretch / 2;         // 2 x 128 lines: 16 KiB of L1
constexpr int64_t kStretchGroups = kStretch / 16;       // at most
constexpr int64_t kPlane = kStretchGroups * kTileRows;  // floats of scales of one tile

// What a task keeps: two tiles' weights of a stretch, and its sums.
struct Scratch {
  std::byte* lines;  // [2][kStretchPairs][64]
  float* scales;     // [2][kStretchGroups][16]
  float* minima;     // [2][kStretchGroups][16]
  float* sums;       // [token][2][16]

  explicit Scratch(std::byte* base)
      : lines(base),
        scales(reinterpret_cast<float*>(base + 2 * kStretchPairs * kLineBytes)),
        minima(scales + 2 * kPlane),
        sums(minima + 2 * kPlane) {}
};

// One stretch of K for one block of tokens.
struct Stretch {
  const std::byte* lines[2];  // of each tile: [pairs][64]
  const float* scales;        // [2][kStretchGroups][16]
  const float* minima;
  const uint32_t* x;   // [pairs][tokens]
  const float* xsums;  // [groups][tokens]
  int64_t groups;
  int64_t group_pairs;  // the last group may be shorter
  int64_t pairs;
  float* sums;  // [tokens][2][16]
};

// What a group's sum becomes.
enum Ending { kCarry, kScale, kScaleAndMin };

// y += scale * sum (+ min * xsum) of one group, and sum = 0 for the next.
template <int kTokens, bool kMin>
[[gnu::target("avx512f"), gnu::always_inline]] inline void finish_group(const Stretch& s,
                                                                        int64_t group, __m512* sum,
                                                                        __m512* y) {
  const float* scales = s.scales + group * kTileRows;
  const float* minima = s.minima + group * kTileRows;
  const __m512 scale0 = _mm512_load_ps(scales);
  const __m512 scale1 = _mm512_load_ps(scales + kPlane);
  const __m512 min0 = kMin ? _mm512_load_ps(minima) : scale0;
  const __m512 min1 = kMin ? _mm512_load_ps(minima + kPlane) : scale1;
#pragma GCC unroll 12
  for (int t = 0; t < kTokens; ++t) {
    y[2 * t] = _mm512_fmadd_ps(scale0, sum[2 * t], y[2 * t]);
    y[2 * t + 1] = _mm512_fmadd_ps(scale1, sum[2 * t + 1], y[2 * t + 1]);
    if constexpr (kMin) {
      const __m512 xsum = _mm512_set1_ps(s.xsums[group * kTokens + t]);
      y[2 * t] = _mm512_fmadd_ps(min0, xsum, y[2 * t]);
      y[2 * t + 1] = _mm512_fmadd_ps(min1, xsum, y[2 * t + 1]);
    }
    sum[2 * t] = sum[2 * t + 1] = _mm512_setzero_ps();
  }
}

// Sums of 2 tiles x kTokens in registers, and with groups the outputs so far as well: 12 tokens
// without and 6 with groups. Per pair of K: 2 loads of weights, kTokens broadcasts of inputs.
template <int kTokens, Ending kEnding>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void multiply(const Stretch& stretch) {
  const Stretch s = stretch;
  __m512 y[2 * kTokens];
  __m512 sum[2 * kTokens];
#pragma GCC unroll 24
  for (int i = 0; i < 2 * kTokens; ++i) {
    y[i] = _mm512_load_ps(s.sums + i * kTileRows);
    sum[i] = kEnding == kCarry ? y[i] : _mm512_setzero_ps();
  }
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t begin = g * s.group_pairs;
    const int64_t end = std::min(s.pairs, begin + s.group_pairs);
    for (int64_t p = begin; p < end; ++p) {
      const auto w0 = (__m512bh)_mm512_load_si512(s.lines[0] + p * kLineBytes);
      const auto w1 = (__m512bh)_mm512_load_si512(s.lines[1] + p * kLineBytes);
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) {
        const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(s.x[p * kTokens + t]));
        sum[2 * t] = _mm512_dpbf16_ps(sum[2 * t], w0, x);
        sum[2 * t + 1] = _mm512_dpbf16_ps(sum[2 * t + 1], w1, x);
      }
    }
    if constexpr (kEnding != kCarry) {
      finish_group<kTokens, kEnding == kScaleAndMin>(s, g, sum, y);
    }
  }
#pragma GCC unroll 24
  for (int i = 0; i < 2 * kTokens; ++i) {
    _mm512_store_ps(s.sums + i * kTileRows, kEnding == kCarry ? sum[i] : y[i]);
  }
}

using Multiply = void (*)(const Stretch&);

template <Ending kEnding, size_t... kIndex>
constexpr auto by_tokens(std::index_sequence<kIndex...>) {
  return std::array<Multiply, sizeof...(kIndex)>{
      multiply<static_cast<int>(kIndex) + 1, kEnding>...};
}
constexpr auto kMultiplyCarry = by_tokens<kCarry>(std::make_index_sequence<kMaxTokens>());
constexpr auto kMultiplyScale = by_tokens<kScale>(std::make_index_sequence<kMaxGroupedTokens>());
constexpr auto kMultiplyScaleAndMin =
    by_tokens<kScaleAndMin>(std::make_index_sequence<kMaxGroupedTokens>());

Multiply pick(Ending ending, int64_t tokens) {
  const auto i = static_cast<size_t>(tokens - 1);
  if (ending == kCarry) return kMultiplyCarry[i];
  return ending == kScale ? kMultiplyScale[i] : kMultiplyScaleAndMin[i];
}

template <class Codes>
[[gnu::target("avx512f,avx512bw,avx512bf16")]] void expand_lines(const std::byte* from,
                                                                 int64_t steps, bool has_min,
                                                                 int64_t ahead_bytes,
                                                                 std::byte* to) {
  const Codes codes(has_min);
  for (int64_t s = 0; s < steps; ++s) {
    __m512i lines[Codes::kOperands];
    prefetch(from + s * kLineBytes + ahead_bytes);
    codes.expand(_mm512_load_si512(from + s * kLineBytes), lines);
    for (int i = 0; i < Codes::kOperands; ++i) {
      _mm512_store_si512(to + (s * Codes::kOperands + i) * kLineBytes, lines[i]);
    }
  }
}

// Lines of steps [begin, end) of a tile. bf16 needs no copy, and no prefetch: all lines of a
// stretch asked for at once took M=8 from 0.62 of the read roof to 0.41.
const std::byte* lines_of(const LinearDesc& desc, const TileLayout& l, const std::byte* tile,
                          int64_t begin, int64_t end, int64_t ahead_bytes, std::byte* to) {
  const std::byte* from = tile + l.codes_at(begin);
  if (desc.storage == DType::kBf16) return from;
  if (desc.storage == DType::kI8)
    expand_lines<I8Codes>(from, end - begin, desc.has_min, ahead_bytes, to);
  else
    expand_lines<I4Codes>(from, end - begin, desc.has_min, ahead_bytes, to);
  return to;
}

// Scales times the codes' unit, and minima, of `groups` groups as f32.
template <DType kScale>
[[gnu::target("avx512f")]] void load_planes(const TileLayout& l, const std::byte* tile,
                                            int64_t group, int64_t groups, float unit,
                                            int64_t ahead_bytes, float* scales, float* minima) {
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* scales_at = tile + l.scale_at(group + g);
    const __m512 scale = load_scales<kScale>(scales_at);
    prefetch(scales_at + ahead_bytes);
    _mm512_store_ps(scales + g * kTileRows, _mm512_mul_ps(scale, _mm512_set1_ps(unit)));
    if (minima == nullptr) continue;
    _mm512_store_ps(minima + g * kTileRows, load_scales<kScale>(scales_at + l.min_offset));
    prefetch(scales_at + l.min_offset + ahead_bytes);
  }
}

// Scale and minimum of rows that are one group, whose sums went on over all stretches.
[[gnu::target("avx512f")]] void scale_whole_rows(const LinearDesc& desc, const Bf16Inputs& inputs,
                                                 int64_t first, int64_t last, const Scratch& s) {
  for (int64_t token = first * inputs.block_tokens, i = 0;
       token < std::min(inputs.rows, last * inputs.block_tokens); ++token, ++i) {
    for (int64_t r = 0; r < 2; ++r) {
      float* to = s.sums + (i * 2 + r) * kTileRows;
      __m512 y = _mm512_fmadd_ps(_mm512_load_ps(s.scales + r * kPlane), _mm512_load_ps(to),
                                 _mm512_setzero_ps());
      if (desc.has_min) {
        y = _mm512_fmadd_ps(_mm512_load_ps(s.minima + r * kPlane),
                            _mm512_set1_ps(inputs.sums[token]), y);
      }
      _mm512_store_ps(to, y);
    }
  }
}

[[gnu::target("avx512f")]] void store_sums(const LinearDesc& desc, const LinearArgs& args,
                                           int64_t first, int64_t last, int64_t tile, bool second,
                                           const float* sums) {
  for (int64_t token = first; token < last; ++token, sums += 2 * kTileRows) {
    store_tile(desc, args, token, tile, _mm512_load_ps(sums));
    if (second) store_tile(desc, args, token, tile + 1, _mm512_load_ps(sums + kTileRows));
  }
}

}  // namespace

int64_t many_scratch_bytes(int64_t tokens) {
  return 2 * kStretchPairs * kLineBytes +
         static_cast<int64_t>(sizeof(float)) * (4 * kPlane + tokens * 2 * kTileRows);
}

void linear_bf16_many(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                      const Bf16Inputs& inputs, int64_t tile, int64_t first, int64_t last,
                      int64_t next, std::byte* scratch) {
  const Scratch s(scratch);
  const bool second = (tile + 1) * kTileRows < desc.n;
  const std::byte* tiles[2] = {args.w + tile * layout.tile_bytes, nullptr};
  tiles[1] = second ? tiles[0] + layout.tile_bytes : tiles[0];
  const int64_t from = first * inputs.block_tokens;
  const int64_t to = std::min(inputs.rows, last * inputs.block_tokens);
  std::fill_n(s.sums, (to - from) * 2 * kTileRows, 0.0f);

  const int64_t ahead_bytes = (next - tile) * layout.tile_bytes;

  const bool whole_row = layout.groups <= 1;
  const Ending ending = whole_row ? kCarry : desc.has_min ? kScaleAndMin : kScale;
  const float unit = desc.storage == DType::kI8 ? I8Codes::kUnit : 1.0f;
  const int64_t stretch_steps = kStretch / layout.step_elements;
  const int64_t step_pairs = layout.step_elements / 2;
  for (int64_t step = 0; step < layout.steps; step += stretch_steps) {
    const int64_t end = std::min(layout.steps, step + stretch_steps);
    const int64_t group = whole_row ? 0 : step / layout.steps_per_group;
    const int64_t groups = whole_row ? 1 : ceil_div(end - step, layout.steps_per_group);
    Stretch stretch{};
    for (int r = 0; r < 2; ++r) {
      stretch.lines[r] = lines_of(desc, layout, tiles[r], step, end, ahead_bytes,
                                  s.lines + r * kStretchPairs * kLineBytes);
      if (layout.groups > 0) {
        const auto load =
            desc.scale == DType::kF32 ? load_planes<DType::kF32> : load_planes<DType::kF16>;
        load(layout, tiles[r], group, groups, unit, ahead_bytes, s.scales + r * kPlane,
             desc.has_min ? s.minima + r * kPlane : nullptr);
      }
    }
    stretch.scales = s.scales;
    stretch.minima = s.minima;
    stretch.groups = groups;
    stretch.pairs = (end - step) * step_pairs;
    stretch.group_pairs = whole_row ? stretch.pairs : layout.steps_per_group * step_pairs;
    for (int64_t block = first; block < last; ++block) {
      const int64_t tokens = inputs.tokens_in(block);
      stretch.x = inputs.pairs_of(block) + step * step_pairs * tokens;
      stretch.xsums = desc.has_min ? inputs.sums_of(block) + group * tokens : nullptr;
      stretch.sums = s.sums + (block - first) * inputs.block_tokens * 2 * kTileRows;
      pick(ending, tokens)(stretch);
    }
  }
  if (whole_row && layout.groups > 0) scale_whole_rows(desc, inputs, first, last, s);
  store_sums(desc, args, from, to, tile, second, s.sums);
}

}  // namespace kvern::kernels::cpu
