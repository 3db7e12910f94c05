// The int8 linear by AVX512-VNNI: codes are expanded in registers, four tiles serve all blocks of
// tokens before the next ones come. Prefetching as in bf16_few.h.
// Expanding to L1 for 12 tokens at a time, outputs waiting in L1, was slower from 9 rows on: int4
// 201 GFLOP/s for 16 rows where this has 269, 233 for 512 where this has 262.
#include "kernels/cpu/linear/bf16_store.h"
#include "kernels/cpu/linear/i8.h"
#include "kernels/cpu/linear/i8_vnni_codes.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kMaxTokens = 8;
constexpr int64_t kChunkTiles = 4;  // read by all blocks of tokens before the next ones

struct Reading {
  const std::byte* tile;
  int64_t ahead_bytes;  // from here to the tiles that this thread most likely reads next
  int64_t block;        // of tokens
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
  const uint32_t* words = task.inputs.words_of(in.block);
  const float* scales = task.inputs.scales_of(in.block);
  const int32_t* starts = task.inputs.starts_of(in.block);
  const float* sums = task.inputs.sums_of(in.block);
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
constexpr Dots kDots[kMaxTokens] = {
    make_dots<Codes, 1>(), make_dots<Codes, 2>(), make_dots<Codes, 3>(), make_dots<Codes, 4>(),
    make_dots<Codes, 5>(), make_dots<Codes, 6>(), make_dots<Codes, 7>(), make_dots<Codes, 8>()};

// Tiles [first, last) for one block of tokens.
[[gnu::target("avx512f")]] void run_block(const I8Task& task, int64_t block, int64_t first,
                                          int64_t last, int64_t ahead_bytes) {
  const int64_t tokens = task.inputs.tokens_in(block);
  const Dots& dots =
      task.desc.storage == DType::kI4 ? kDots<VnniI4>[tokens - 1] : kDots<VnniI8>[tokens - 1];
  alignas(64) float y[8 * kTileRows];
  for (int64_t tile = first; tile < last;) {
    const int64_t tiles = last - tile >= dots.tiles ? dots.tiles : 1;
    const Reading reading{task.args.w + tile * task.layout.tile_bytes, ahead_bytes, block, y};
    (tiles == dots.tiles ? dots.side_by_side : dots.one)(task, reading);
    for (int64_t i = 0; i < tiles * tokens; ++i) {
      store_tile(task.desc, task.args, task.inputs.first_of(block) + i % tokens, tile + i / tokens,
                 _mm512_load_ps(y + i * kTileRows));
    }
    tile += tiles;
  }
}

void run(const I8Task& task, int64_t first_block, int64_t last_block, int64_t first, int64_t last,
         int64_t next) {
  for (int64_t chunk = first; chunk < last; chunk += kChunkTiles) {
    const int64_t end = std::min(last, chunk + kChunkTiles);
    // The first block brings the next tiles, the others find theirs.
    const int64_t ahead_bytes = ((end < last ? end : next) - chunk) * task.layout.tile_bytes;
    for (int64_t block = first_block; block < last_block; ++block) {
      run_block(task, block, chunk, end, block == first_block ? ahead_bytes : 0);
    }
  }
}

}  // namespace

const I8Kernels& i8_kernels_vnni() {
  static constexpr I8Kernels kKernels = {quantise_avx2, 128, 8, kMaxTokens, run};
  return kKernels;
}

}  // namespace kvern::kernels::cpu
