// A few tokens: codes are expanded in registers, a tile is read once. Prefetching as in bf16_few.h.
#include "kernels/cpu/linear/bf16_store.h"
#include "kernels/cpu/linear/i8_vnni.h"
#include "kernels/cpu/linear/i8_vnni_codes.h"

namespace kvern::kernels::cpu {
namespace {

struct Reading {
  const std::byte* tile;
  int64_t ahead_bytes;  // from here to the tiles that this thread most likely reads next
  float* y;             // [tiles][tokens][16]
};

[[gnu::always_inline]] inline void prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
}

// Tiles side by side that follow each other in memory, one block of tokens.
template <class Codes, int kTiles, int kTokens>
[[gnu::target("avx512f,avx512bw,avx512vnni")]] void dot_tiles(const I8Task& task,
                                                              const Reading& reading) {
  constexpr int kSums = kTiles * kTokens;
  const TileLayout l = task.layout;
  const Reading in = reading;
  const I8Steps steps = task.steps;
  const bool has_min = task.desc.has_min;
  const DType scale_type = task.desc.scale;
  const uint32_t* words = task.inputs.words;
  const float* scales = task.inputs.scales;
  const int32_t* starts = task.inputs.starts;
  const float* sums = task.inputs.sums;
  const Codes codes(has_min);
  __m512 y[kSums];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) y[i] = _mm512_setzero_ps();
  for (int64_t s = 0; s < steps.stretches; ++s) {
    __m512i sum[kSums];
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_epi32(starts[i % kTokens]);
    const std::byte* line = in.tile + l.codes_at(steps.first_line(s));
    const int64_t lines = steps.lines_in(l, s);
    const uint32_t* q = words + s * steps.stretch_words * kTokens;
    for (int64_t i = 0; i < lines; ++i, line += kLineBytes, q += Codes::kOperands * kTokens) {
#pragma GCC unroll 4
      for (int t = 0; t < kTiles; ++t) {
        __m512i operands[Codes::kOperands];
        prefetch(line + t * l.tile_bytes + in.ahead_bytes);
        codes.expand(_mm512_load_si512(line + t * l.tile_bytes), operands);
#pragma GCC unroll 2
        for (int o = 0; o < Codes::kOperands; ++o) {
#pragma GCC unroll 8
          for (int m = 0; m < kTokens; ++m) {
            const __m512i x = _mm512_set1_epi32(static_cast<int>(q[o * kTokens + m]));
            add_dots(sum[t * kTokens + m], operands[o], x);
          }
        }
      }
    }
    const int64_t g = steps.group_of(s);
#pragma GCC unroll 4
    for (int t = 0; t < kTiles; ++t) {
      const std::byte* scale_at = in.tile + t * l.tile_bytes + l.scale_at(g);
      const __m512 scale = load_16(scale_type, scale_at);
      prefetch(scale_at + in.ahead_bytes);
#pragma GCC unroll 8
      for (int m = 0; m < kTokens; ++m) {
        const int i = t * kTokens + m;
        const __m512 dot = _mm512_mul_ps(_mm512_set1_ps(scales[m]), _mm512_cvtepi32_ps(sum[i]));
        y[i] = _mm512_fmadd_ps(scale, dot, y[i]);
      }
      if (!has_min) continue;
      const __m512 min = load_16(scale_type, scale_at + l.min_offset);
      prefetch(scale_at + l.min_offset + in.ahead_bytes);
#pragma GCC unroll 8
      for (int m = 0; m < kTokens; ++m) {
        y[t * kTokens + m] = _mm512_fmadd_ps(min, _mm512_set1_ps(sums[m]), y[t * kTokens + m]);
      }
    }
    scales += kTokens;
    starts += kTokens;
    if (has_min) sums += kTokens;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) _mm512_store_ps(in.y + i * kTileRows, y[i]);
}

// For a number of tokens: the tiles that go side by side, and the rest one by one.
struct Dots {
  int tiles;
  void (*side_by_side)(const I8Task&, const Reading&);
  void (*one)(const I8Task&, const Reading&);
};

template <class Codes, int kTokens>
constexpr Dots make_dots() {
  constexpr int kTiles = kTokens <= 2 ? 4 : kTokens <= 4 ? 2 : 1;
  return {kTiles, dot_tiles<Codes, kTiles, kTokens>, dot_tiles<Codes, 1, kTokens>};
}

template <class Codes>
constexpr Dots kDots[kVnniFewTokens] = {
    make_dots<Codes, 1>(), make_dots<Codes, 2>(), make_dots<Codes, 3>(), make_dots<Codes, 4>(),
    make_dots<Codes, 5>(), make_dots<Codes, 6>(), make_dots<Codes, 7>(), make_dots<Codes, 8>()};

}  // namespace

[[gnu::target("avx512f")]] void i8_vnni_few(const I8Task& task, int64_t first, int64_t last,
                                            int64_t next) {
  const int64_t rows = task.inputs.rows;
  const Dots& dots =
      task.desc.storage == DType::kI4 ? kDots<VnniI4>[rows - 1] : kDots<VnniI8>[rows - 1];
  alignas(64) float y[8 * kTileRows];
  for (int64_t tile = first; tile < last;) {
    const int64_t tiles = last - tile >= dots.tiles ? dots.tiles : 1;
    const int64_t ahead = tile + tiles < last ? tiles : next - tile;
    const Reading reading{task.args.w + tile * task.layout.tile_bytes,
                          ahead * task.layout.tile_bytes, y};
    (tiles == dots.tiles ? dots.side_by_side : dots.one)(task, reading);
    for (int64_t i = 0; i < tiles * rows; ++i) {
      store_tile(task.desc, task.args, i % rows, tile + i / rows,
                 _mm512_load_ps(y + i * kTileRows));
    }
    tile += tiles;
  }
}

}  // namespace kvern::kernels::cpu
