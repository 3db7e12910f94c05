// Many tokens: codes of two tiles are expanded to L1 once per stretch of K, then used for all the
// tokens of a task, whose outputs so far wait in L1 as well.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/linear/bf16_store.h"
#include "kernels/cpu/linear/i8_vnni.h"
#include "kernels/cpu/linear/i8_vnni_codes.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kReach = 512;                          // elements of K expanded at once
constexpr int64_t kReachWords = kReach / 4;              // 2 x 128 lines: 16 KiB of L1
constexpr int64_t kReachStretches = kReach / 16;         // at most
constexpr int64_t kPlane = kReachStretches * kTileRows;  // floats of scales of one tile

struct Scratch {
  std::byte* lines;  // [2][kReachWords][64]
  float* scales;     // [2][kReachStretches][16]
  float* minima;     // [2][kReachStretches][16]
  float* y;          // [token][2][16]

  explicit Scratch(std::byte* base)
      : lines(base),
        scales(reinterpret_cast<float*>(base + 2 * kReachWords * kLineBytes)),
        minima(scales + 2 * kPlane),
        y(minima + 2 * kPlane) {}
};

// One reach of K for one block of tokens.
struct Reach {
  const std::byte* lines;
  const float* scales;
  const float* minima;    // nullptr without
  const uint32_t* words;  // [words][tokens]
  const float* x_scales;  // [stretches][tokens]
  const int32_t* starts;
  const float* sums;
  int64_t stretches;
  int64_t stretch_words;
  int64_t words_left;  // that the weight has from here on
  float* y;            // [tokens][2][16]
};

template <int kTokens>
[[gnu::target("avx512f"), gnu::always_inline]] inline void add_stretch(const Reach& r, int64_t s,
                                                                       const __m512i* sum) {
  const float* scales = r.scales + s * kTileRows;
  const __m512 scale[2] = {_mm512_load_ps(scales), _mm512_load_ps(scales + kPlane)};
  const bool has_min = r.minima != nullptr;
  const float* minima = has_min ? r.minima + s * kTileRows : scales;
  const __m512 min[2] = {_mm512_load_ps(minima), _mm512_load_ps(minima + kPlane)};
#pragma GCC unroll 24
  for (int i = 0; i < 2 * kTokens; ++i) {
    const __m512 d = _mm512_set1_ps(r.x_scales[s * kTokens + i / 2]);
    const __m512 dot = _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum[i]));
    __m512 y = _mm512_fmadd_ps(scale[i % 2], dot, _mm512_load_ps(r.y + i * kTileRows));
    if (has_min) {
      y = _mm512_fmadd_ps(min[i % 2], _mm512_set1_ps(r.sums[s * kTokens + i / 2]), y);
    }
    _mm512_store_ps(r.y + i * kTileRows, y);
  }
}

// Per word of K: 2 loads of weights and kTokens broadcasts for 2 x kTokens dot products.
template <int kTokens>
[[gnu::target("avx512f,avx512bw,avx512vnni")]] void multiply(const Reach& reach) {
  const Reach r = reach;
  for (int64_t s = 0; s < r.stretches; ++s) {
    __m512i sum[2 * kTokens];
#pragma GCC unroll 24
    for (int i = 0; i < 2 * kTokens; ++i) {
      sum[i] = _mm512_set1_epi32(r.starts[s * kTokens + i / 2]);
    }
    const int64_t first = s * r.stretch_words;
    const int64_t last = std::min(first + r.stretch_words, r.words_left);
    for (int64_t w = first; w < last; ++w) {
      const __m512i w0 = _mm512_load_si512(r.lines + w * kLineBytes);
      const __m512i w1 = _mm512_load_si512(r.lines + (kReachWords + w) * kLineBytes);
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) {
        const __m512i x = _mm512_set1_epi32(static_cast<int>(r.words[w * kTokens + t]));
        add_dots(sum[2 * t], w0, x);
        add_dots(sum[2 * t + 1], w1, x);
      }
    }
    add_stretch<kTokens>(r, s, sum);
  }
}

using Multiply = void (*)(const Reach&);

template <size_t... kIndex>
constexpr auto by_tokens(std::index_sequence<kIndex...>) {
  return std::array<Multiply, sizeof...(kIndex)>{multiply<static_cast<int>(kIndex) + 1>...};
}
constexpr auto kMultiply = by_tokens(std::make_index_sequence<kVnniManyTokens>());

template <class Codes>
[[gnu::target("avx512f")]] void expand_lines(const std::byte* from, int64_t lines, bool has_min,
                                             int64_t ahead_bytes, std::byte* to) {
  const Codes codes(has_min);
  for (int64_t l = 0; l < lines; ++l, from += kLineBytes) {
    __m512i operands[Codes::kOperands];
    _mm_prefetch(reinterpret_cast<const char*>(from + ahead_bytes), _MM_HINT_T1);
    codes.expand(_mm512_load_si512(from), operands);
    for (int i = 0; i < Codes::kOperands; ++i, to += kLineBytes) {
      _mm512_store_si512(to, operands[i]);
    }
  }
}

// Codes, scales and minima of stretches [first, last) of a tile.
[[gnu::target("avx512f")]] void stage(const I8Task& t, const std::byte* tile, int64_t first,
                                      int64_t last, int64_t ahead_bytes, std::byte* lines,
                                      float* scales, float* minima) {
  const TileLayout& l = t.layout;
  const int64_t begin = t.steps.first_line(first);
  const int64_t count = std::min(l.steps, t.steps.first_line(last)) - begin;
  const auto expand = t.desc.storage == DType::kI4 ? expand_lines<VnniI4> : expand_lines<VnniI8>;
  expand(tile + l.codes_at(begin), count, t.desc.has_min, ahead_bytes, lines);
  for (int64_t s = first; s < last; ++s, scales += kTileRows, minima += kTileRows) {
    const std::byte* at = tile + l.scale_at(t.steps.group_of(s));
    _mm512_store_ps(scales, load_16(t.desc.scale, at));
    if (t.desc.has_min) _mm512_store_ps(minima, load_16(t.desc.scale, at + l.min_offset));
  }
}

}  // namespace

int64_t i8_vnni_scratch_bytes(int64_t tokens) {
  return 2 * kReachWords * kLineBytes +
         static_cast<int64_t>(sizeof(float)) * (4 * kPlane + tokens * 2 * kTileRows);
}

[[gnu::target("avx512f")]] void i8_vnni_many(const I8Task& task, int64_t tile, int64_t first,
                                             int64_t last, int64_t next, std::byte* scratch) {
  const Scratch s(scratch);
  const I8Inputs& in = task.inputs;
  const bool second = (tile + 1) * kTileRows < task.desc.n;
  const std::byte* tiles[2] = {task.args.w + tile * task.layout.tile_bytes, nullptr};
  tiles[1] = second ? tiles[0] + task.layout.tile_bytes : tiles[0];
  const int64_t from = in.first_of(first);
  const int64_t to = std::min(in.rows, in.first_of(last));
  std::fill_n(s.y, (to - from) * 2 * kTileRows, 0.0f);

  const int64_t ahead_bytes = (next - tile) * task.layout.tile_bytes;
  const int64_t reach = kReach / task.steps.stretch_elements;
  for (int64_t stretch = 0; stretch < task.steps.stretches; stretch += reach) {
    const int64_t end = std::min(task.steps.stretches, stretch + reach);
    for (int i = 0; i < 2; ++i) {
      stage(task, tiles[i], stretch, end, ahead_bytes, s.lines + i * kReachWords * kLineBytes,
            s.scales + i * kPlane, s.minima + i * kPlane);
    }
    Reach r{};
    r.lines = s.lines;
    r.scales = s.scales;
    r.minima = task.desc.has_min ? s.minima : nullptr;
    r.stretches = end - stretch;
    r.stretch_words = task.steps.stretch_words;
    r.words_left = task.steps.words - stretch * task.steps.stretch_words;
    for (int64_t block = first; block < last; ++block) {
      const int64_t tokens = in.tokens_in(block);
      r.words = in.words_of(block) + stretch * r.stretch_words * tokens;
      r.x_scales = in.scales_of(block) + stretch * tokens;
      r.starts = in.starts_of(block) + stretch * tokens;
      r.sums = task.desc.has_min ? in.sums_of(block) + stretch * tokens : nullptr;
      r.y = s.y + (in.first_of(block) - from) * 2 * kTileRows;
      kMultiply[static_cast<size_t>(tokens - 1)](r);
    }
  }
  const float* y = s.y;
  for (int64_t token = from; token < to; ++token, y += 2 * kTileRows) {
    store_tile(task.desc, task.args, token, tile, _mm512_load_ps(y));
    if (second) store_tile(task.desc, task.args, token, tile + 1, _mm512_load_ps(y + kTileRows));
  }
}

const I8Kernels& i8_kernels_vnni() {
  static constexpr I8Kernels kKernels = {quantise_avx2,
                                         128,
                                         8,
                                         kVnniFewTokens,
                                         kVnniFewTokens,
                                         kVnniManyTokens,
                                         i8_vnni_few,
                                         i8_vnni_many,
                                         i8_vnni_scratch_bytes};
  return kKernels;
}

}  // namespace kvern::kernels::cpu
