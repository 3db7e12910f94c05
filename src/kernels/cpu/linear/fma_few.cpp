// A few tokens: codes become f32 in registers, a tile is read once. Prefetching as in bf16_few.h.
#include <algorithm>
#include <array>

#include "kernels/cpu/linear/fma.h"
#include "kernels/cpu/linear/fma_codes.h"
#include "kernels/cpu/linear/store_lanes.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kChunkTiles = 4;  // read by all blocks of tokens before the next ones

struct Reading {
  const std::byte* tile;
  int64_t ahead_bytes;  // from here to the tiles that this thread most likely reads next
  int64_t block;        // of tokens
  float* y;             // [tiles][tokens][16], zeros at first
};

[[gnu::always_inline]] inline void prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T1);
}

// Outputs of one tile after a group whose sums are done.
template <int kTokens>
[[gnu::target("avx2,fma,f16c"), gnu::always_inline]] inline void add_group(
    const FmaTask& task, const float* sums, const std::byte* tile, int64_t ahead_bytes, int64_t g,
    const __m256* sum, float* y) {
  const TileLayout& l = task.layout;
  const std::byte* scale_at = tile + l.scale_at(g);
  const std::byte* min_at = tile + l.min_at(g);
  const bool has_min = task.desc.has_min;
  prefetch(scale_at + ahead_bytes);
  if (has_min) prefetch(min_at + ahead_bytes);
  const float* xsums = has_min ? sums + g * kTokens : nullptr;
  const __m256 unit = _mm256_set1_ps(fma_unit(task.desc.storage));
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m256 scale = _mm256_mul_ps(load_8(task.desc.scale, scale_at, half), unit);
    const __m256 min = has_min ? load_8(task.desc.scale, min_at, half) : scale;
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      float* at = y + t * kTileRows + 8 * half;
      __m256 value = _mm256_fmadd_ps(scale, sum[2 * t + half], _mm256_load_ps(at));
      if (has_min) value = _mm256_fmadd_ps(min, _mm256_set1_ps(xsums[t]), value);
      _mm256_store_ps(at, value);
    }
  }
}

// Tiles side by side that follow each other in memory.
template <class Codes, int kTiles, int kTokens>
[[gnu::target("avx2,fma,f16c")]] void dot_tiles(const FmaTask& task, const Reading& reading) {
  constexpr int kSums = 2 * kTiles * kTokens;
  constexpr int kElements = Codes::kElements;
  const TileLayout l = task.layout;
  const Reading in = reading;
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(task.desc.has_min ? 0 : 0x88));
  const float start = fma_start(task.desc);
  const float* x = task.inputs.x_of(in.block);
  const float* xsums = task.inputs.sums_of(in.block);
  const int64_t groups = std::max<int64_t>(1, l.groups);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * l.steps_per_group;
    const int64_t last = std::min(l.steps, first + l.steps_per_group);
    __m256 sum[kSums];
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) {
      sum[i] = _mm256_setzero_ps();
      if constexpr (kElements == 8) {
        sum[i] = _mm256_set1_ps(start * xsums[g * kTokens + i / 2 % kTokens]);
      }
    }
    const std::byte* line = in.tile + l.codes_at(first);
    for (int64_t s = first; s < last; ++s, line += kLineBytes, x += kElements * kTokens) {
#pragma GCC unroll 4
      for (int tile = 0; tile < kTiles; ++tile) {
        const std::byte* at = line + tile * l.tile_bytes;
        prefetch(at + in.ahead_bytes);
        const __m256i low = load_words<Codes>(at, flip);
        const __m256i high = load_words<Codes>(at + 32, flip);
#pragma GCC unroll 8
        for (int e = 0; e < kElements; ++e) {
          const __m256 w0 = Codes::element(low, e);
          const __m256 w1 = Codes::element(high, e);
#pragma GCC unroll 4
          for (int t = 0; t < kTokens; ++t) {
            const __m256 value = _mm256_broadcast_ss(x + e * kTokens + t);
            __m256* to = sum + 2 * (tile * kTokens + t);
            to[0] = _mm256_fmadd_ps(w0, value, to[0]);
            to[1] = _mm256_fmadd_ps(w1, value, to[1]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      float* y = in.y + tile * kTokens * kTileRows;
      const __m256* from = sum + 2 * tile * kTokens;
      if constexpr (kElements >= 4) {
        add_group<kTokens>(task, xsums, in.tile + tile * l.tile_bytes, in.ahead_bytes, g, from, y);
      } else {
#pragma GCC unroll 8
        for (int i = 0; i < 2 * kTokens; ++i) _mm256_store_ps(y + 8 * i, from[i]);
      }
    }
  }
}

// For a number of tokens: the tiles that go side by side, and the rest one by one. Eight sums hide
// the 4 cycles of an FMA.
struct Dots {
  int tiles;
  void (*side_by_side)(const FmaTask&, const Reading&);
  void (*one)(const FmaTask&, const Reading&);
};

template <class Codes, int kTokens>
constexpr Dots make_dots() {
  constexpr int kTiles = kTokens == 1 ? 4 : kTokens == 2 ? 2 : 1;
  return {kTiles, dot_tiles<Codes, kTiles, kTokens>, dot_tiles<Codes, 1, kTokens>};
}

template <class Codes>
constexpr std::array<Dots, kFmaFewTokens> kDots = {make_dots<Codes, 1>(), make_dots<Codes, 2>(),
                                                   make_dots<Codes, 3>(), make_dots<Codes, 4>()};

const Dots& pick(DType storage, int64_t tokens) {
  const auto i = static_cast<size_t>(tokens - 1);
  switch (storage) {
    case DType::kF16:
      return kDots<FmaF16>[i];
    case DType::kBf16:
      return kDots<FmaBf16>[i];
    case DType::kI8:
      return kDots<FmaI8>[i];
    default:
      return kDots<FmaI4>[i];
  }
}

// Tiles [first, last) for one block of tokens.
void run_block(const FmaTask& task, int64_t block, int64_t first, int64_t last,
               int64_t ahead_bytes) {
  const int64_t tokens = task.inputs.tokens_in(block);
  const Dots& dots = pick(task.desc.storage, tokens);
  alignas(32) float y[kFmaFewTokens * kTileRows];
  for (int64_t tile = first; tile < last;) {
    const int64_t tiles = last - tile >= dots.tiles ? dots.tiles : 1;
    std::fill_n(y, tiles * tokens * kTileRows, 0.0f);
    (tiles == dots.tiles ? dots.side_by_side : dots.one)(
        task, {task.args.w + tile * task.layout.tile_bytes, ahead_bytes, block, y});
    for (int64_t i = 0; i < tiles * tokens; ++i) {
      store_lanes(task.desc, task.args, task.inputs.first_of(block) + i % tokens, tile + i / tokens,
                  y + i * kTileRows);
    }
    tile += tiles;
  }
}

}  // namespace

void fma_few(const FmaTask& task, int64_t first, int64_t last, int64_t next) {
  for (int64_t chunk = first; chunk < last; chunk += kChunkTiles) {
    const int64_t end = std::min(last, chunk + kChunkTiles);
    // The first block brings the next tiles, the others find theirs.
    const int64_t ahead_bytes = ((end < last ? end : next) - chunk) * task.layout.tile_bytes;
    for (int64_t block = 0; block < task.inputs.blocks(); ++block) {
      run_block(task, block, chunk, end, block == 0 ? ahead_bytes : 0);
    }
  }
}

}  // namespace kvern::kernels::cpu
