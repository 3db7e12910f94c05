#include "kernels/cpu/linear/bf16_few.h"

#include "kernels/cpu/linear/bf16_store.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kChunkTiles = 4;  // read by all blocks of tokens before the next ones

const Dots& pick(const LinearDesc& desc, int64_t tokens) {
  if (desc.storage == DType::kBf16) return few_bf16(tokens);
  return desc.storage == DType::kI8 ? few_i8(desc, tokens) : few_i4(desc, tokens);
}

}  // namespace

const Dots& few_bf16(int64_t tokens) {
  return kDots<Bf16Codes, DType::kF32, false>[tokens - 1];
}

[[gnu::target("avx512f")]] void linear_bf16_few(const LinearDesc& desc, const TileLayout& layout,
                                                const LinearArgs& args, const Bf16Inputs& inputs,
                                                int64_t first_block, int64_t last_block,
                                                int64_t first, int64_t last, int64_t next) {
  alignas(64) float y[8 * kTileRows];
  for (int64_t chunk = first; chunk < last; chunk += kChunkTiles) {
    const int64_t end = std::min(last, chunk + kChunkTiles);
    // The first block brings the next tiles, the others find theirs.
    const int64_t ahead_bytes = ((end < last ? end : next) - chunk) * layout.tile_bytes;
    for (int64_t block = first_block; block < last_block; ++block) {
      const int64_t tokens = inputs.tokens_in(block);
      const Dots& dots = pick(desc, tokens);
      for (int64_t tile = chunk; tile < end;) {
        const int64_t tiles = end - tile >= dots.tiles ? dots.tiles : 1;
        const Reading reading{args.w + tile * layout.tile_bytes,
                              block == first_block ? ahead_bytes : 0, inputs.pairs_of(block),
                              inputs.sums_of(block), y};
        (tiles == dots.tiles ? dots.side_by_side : dots.one)(layout, reading);
        for (int64_t i = 0; i < tiles * tokens; ++i) {
          store_tile(desc, args, block * inputs.block_tokens + i % tokens, tile + i / tokens,
                     _mm512_load_ps(y + i * kTileRows));
        }
        tile += tiles;
      }
    }
  }
}

}  // namespace kvern::kernels::cpu
