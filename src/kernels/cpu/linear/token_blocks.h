// The tokens of one call in blocks of equal size, the last block the rest. Within a block the
// inputs of all its tokens for one step of K are contiguous.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace kvern::kernels::cpu {

struct TokenBlocks {
  int64_t rows = 0;
  int64_t block_tokens = 1;

  int64_t blocks() const { return ceil_div(rows, block_tokens); }
  int64_t first_of(int64_t block) const { return block * block_tokens; }
  int64_t tokens_in(int64_t block) const {
    return std::min(block_tokens, rows - block * block_tokens);
  }
  // Blocks as equal as they get, so that 13 tokens are 7 and 6 rather than 12 and 1.
  static TokenBlocks even(int64_t rows, int64_t max_tokens) {
    return {rows, ceil_div(rows, ceil_div(rows, max_tokens))};
  }
};

}  // namespace kvern::kernels::cpu
