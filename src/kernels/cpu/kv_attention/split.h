// A split of one KV head: where its positions lie, and how they lie once staged.
#pragma once

#include <algorithm>

#include "kernels/cpu/kv/codec.h"
#include "kernels/kv_attention.h"

namespace kvern::kernels::cpu {

// Positions that lie side by side in a staged split, whatever the width of the vectors.
inline constexpr int64_t kLanes = 16;
inline constexpr int64_t kSplitBlocks = kSplitTokens / kLanes;

// A step of a dot product is 4 bytes of K: two bf16, or one f32.
enum class QkInput : uint8_t { kBf16, kF32 };

inline int64_t dot_steps(QkInput input, int64_t dim) {
  return input == QkInput::kBf16 ? (dim + 1) / 2 : dim;
}

// Rows are asked for this many positions before they are read, across the end of a split: pages lie
// anywhere, so the hardware's prefetchers see no stream. Into L2: asking for L1 fills its few miss
// buffers (decode at 2,000 tokens, one thread: none 6.9 ms, L1 6.9, L2 4.7; 64 and 128 ahead: 5.0).
inline constexpr int64_t kAheadTokens = 32;

template <DType kStorage>
inline constexpr int64_t kCodeBytes = kStorage == DType::kF32                                 ? 4
                                      : (kStorage == DType::kF16 || kStorage == DType::kBf16) ? 2
                                                                                              : 1;

// Only [begin, end) of the arrays is set and read, and [end, ahead_end) asked for. Scales are f32
// already, and 256 times themselves where codes of f8e4m3 are to be read as f16; they are zero from
// the edges of [begin, end) to those of its blocks.
struct SplitSource {
  int64_t begin = 0;  // relative to the split's first position
  int64_t end = 0;
  int64_t ahead_end = 0;
  const std::byte* k[kSplitTokens + kAheadTokens];
  const std::byte* v[kSplitTokens + kAheadTokens];
  float* k_scale = nullptr;  // [kSplitTokens][k_groups]
  float* v_scale = nullptr;  // [kSplitTokens][v_groups]
  int64_t k_groups = 0;      // 0: a float format
  int64_t v_groups = 0;
};

// Asks for the rows, for L2, kAheadTokens after [begin, begin + kLanes). Always inline: g++ 12
// drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void ask_ahead(const SplitSource& from, const std::byte* const* rows,
                                             int64_t row_bytes, int64_t begin) {
  const int64_t end = std::min(begin + kAheadTokens + kLanes, from.ahead_end);
  for (int64_t p = std::max(begin + kAheadTokens, from.begin); p < end; ++p) {
    for (int64_t byte = 0; byte < row_bytes; byte += 64) {
      __builtin_prefetch(rows[p] + byte, 0, 1);
    }
  }
}

}  // namespace kvern::kernels::cpu
