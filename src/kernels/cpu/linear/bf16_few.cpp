#include "kernels/cpu/linear/bf16_few.h"

#include "kernels/cpu/linear/bf16_store.h"

namespace kvern::kernels::cpu {
namespace {

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
                                                int64_t first, int64_t last, int64_t next) {
  const Dots& dots = pick(desc, inputs.rows);
  alignas(64) float y[8 * kTileRows];
  for (int64_t tile = first; tile < last;) {
    const int64_t tiles = last - tile >= dots.tiles ? dots.tiles : 1;
    const int64_t ahead = tile + tiles < last ? tiles : next - tile;
    const Reading reading{args.w + tile * layout.tile_bytes, ahead * layout.tile_bytes,
                          inputs.pairs, inputs.sums, y};
    (tiles == dots.tiles ? dots.side_by_side : dots.one)(layout, reading);
    for (int64_t i = 0; i < tiles * inputs.rows; ++i) {
      store_tile(desc, args, i % inputs.rows, tile + i / inputs.rows,
                 _mm512_load_ps(y + i * kTileRows));
    }
    tile += tiles;
  }
}

}  // namespace kvern::kernels::cpu
