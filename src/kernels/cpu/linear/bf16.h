// The bf16 linear: inputs rounded to bf16, weights as exact bf16 (integer codes stay integers), dot
// products by AVX512-BF16. Numerics id "bf16.pairs.f32":
//
//   group sum s[g] = 0; for pairs of K ascending: s[g] = dpbf16(s[g], w pair, x pair)
//   y = 0; for groups ascending: y = fma(scale[g], s[g], y), then y = fma(min[g], xsum[g], y)
//   xsum[g] = sum of the rounded inputs of the group; then y + bias
//
// bf16 weights are one group without a scale. A pair is (2i, 2i + 1), for i8 (4i, 4i + 2) and
// (4i + 1, 4i + 3). No order depends on rows, tasks or threads.
#pragma once

#include <algorithm>

#include "kernels/cpu/pack/tile_layout.h"
#include "kernels/linear.h"

namespace kvern::kernels::cpu {

// Tokens of one register tile: 2 x 12 sums, or 2 x 6 sums and as many outputs so far.
inline constexpr int64_t kMaxTokens = 12;
inline constexpr int64_t kMaxGroupedTokens = 6;
// Of one register tile whose codes are expanded in registers.
inline constexpr int64_t kMaxFewTokens = 8;

// Inputs of one call as the kernels read them. Tokens go in blocks; within a block of t tokens
// (`block_tokens`, the last block the rest) a pair of K of all its tokens is contiguous.
struct Bf16Inputs {
  uint32_t* pairs = nullptr;  // [block][pairs][t] two bf16 each
  float* sums = nullptr;      // [block][groups][t]; nullptr without minima
  int64_t rows = 0;
  int64_t block_tokens = 1;
  int64_t num_pairs = 0;  // of a row, padded to 8
  int64_t groups = 0;

  int64_t blocks() const { return ceil_div(rows, block_tokens); }
  int64_t tokens_in(int64_t block) const {
    return std::min(block_tokens, rows - block * block_tokens);
  }
  const uint32_t* pairs_of(int64_t block) const { return pairs + block * block_tokens * num_pairs; }
  const float* sums_of(int64_t block) const { return sums + block * block_tokens * groups; }
};

// Rounds and arranges the rows of one block.
void round_block(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                 const Bf16Inputs& inputs, int64_t block);

// Outputs of tiles [first, last) for token blocks [first_block, last_block), codes expanded in
// registers for each block. `next` is the tile that this thread most likely reads after them; it
// may lie beyond the weight.
void linear_bf16_few(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                     const Bf16Inputs& inputs, int64_t first_block, int64_t last_block,
                     int64_t first, int64_t last, int64_t next);

// Outputs of tiles `tile` and `tile` + 1 for token blocks [first, last): codes expanded to scratch
// once per stretch of K, then used for all the tokens. scratch: many_scratch_bytes(tokens).
void linear_bf16_many(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                      const Bf16Inputs& inputs, int64_t tile, int64_t first, int64_t last,
                      int64_t next, std::byte* scratch);
int64_t many_scratch_bytes(int64_t tokens);

Verdict supports_linear_bf16(const LinearDesc& desc);
void run_linear_bf16(const LinearDesc& desc, const LinearArgs& args);

}  // namespace kvern::kernels::cpu
