#include "kernels/cpu/kv_attention/tiles.h"

#include <algorithm>

namespace kvern::kernels::cpu {

std::vector<QueryTile> cut_tiles(const KvAttentionDesc& desc, const StepView& step,
                                 int32_t tile_tokens) {
  const KvPages& pages = check_step(desc, step);
  std::vector<QueryTile> tiles;
  tiles.reserve(static_cast<size_t>(step.num_tokens / tile_tokens + step.num_sequences));
  for (int32_t s = 0; s < step.num_sequences; ++s) {
    const int32_t tokens = step.token_offset[s + 1] - step.token_offset[s];
    const int64_t start = step.context_start[s];
    if (tokens == 0) continue;
    check_pages(pages, s, first_visible(desc, start), start + tokens);
    for (int32_t t = (tokens - 1) / tile_tokens * tile_tokens; t >= 0; t -= tile_tokens) {
      tiles.push_back({s, step.token_offset[s] + t, std::min(tile_tokens, tokens - t), start + t});
    }
  }
  return tiles;
}

}  // namespace kvern::kernels::cpu
