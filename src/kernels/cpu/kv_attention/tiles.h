// How a launch is cut: tiles of consecutive tokens of one sequence, times KV heads.
#pragma once

#include <vector>

#include "kernels/cpu/kv/pages.h"
#include "kernels/kv_attention.h"

namespace kvern::kernels::cpu {

struct QueryTile {
  int32_t sequence;
  int64_t first_row;  // of q and y
  int32_t tokens;
  int64_t position;  // of the tile's first token
};

// Positions that the token at `position` sees: [first_visible(…), position].
inline int64_t first_visible(const KvAttentionDesc& desc, int64_t position) {
  if (desc.mask == AttentionMask::kCausal) return 0;
  return position + 1 > desc.window ? position + 1 - desc.window : 0;
}

// Checks the step and all pages that it may read, then cuts it. Later tiles of a sequence come
// first: they see more positions, and the longest tasks must not start last.
std::vector<QueryTile> cut_tiles(const KvAttentionDesc& desc, const StepView& step,
                                 int32_t tile_tokens);

}  // namespace kvern::kernels::cpu
