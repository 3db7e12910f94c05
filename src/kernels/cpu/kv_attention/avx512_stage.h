// One split of one KV head, brought from its pages into the order that the dot products want.
#pragma once

#include "kernels/cpu/kv/codec.h"
#include "kernels/kv_attention.h"

namespace kvern::kernels::cpu {

inline constexpr int64_t kLanes = 16;
inline constexpr int64_t kSplitBlocks = kSplitTokens / kLanes;

// A step of a dot product is 4 bytes of K: two bf16, or one f32.
enum class QkInput : uint8_t { kBf16, kF32 };

inline int64_t dot_steps(QkInput input, int64_t dim) {
  return input == QkInput::kBf16 ? (dim + 1) / 2 : dim;
}

// Where the positions of a split lie; only [begin, end) of the arrays is set and read.
struct SplitSource {
  int64_t begin = 0;  // relative to the split's first position
  int64_t end = 0;
  const std::byte* k[kSplitTokens];
  const std::byte* k_scale[kSplitTokens];
  const std::byte* v[kSplitTokens];
  const std::byte* v_scale[kSplitTokens];
};

// k: [kSplitBlocks][steps][16 positions] of 4 bytes. With bf16 input, i8 codes come as bf16, which
// is exact, and their scales apart: k_scale [kSplitBlocks][groups][16]. Positions outside
// [begin, end) of a block that is touched are zero.
void stage_k(QkInput input, const KvRange& range, const SplitSource& from, float* k,
             float* k_scale);
// v: [kSplitTokens][padded_dim], columns beyond dim zero.
void stage_v(const KvRange& range, const SplitSource& from, int64_t padded_dim, float* v);

}  // namespace kvern::kernels::cpu
