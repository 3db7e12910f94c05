// The inner loops of attention, each for a block of at most kBlockRows rows (a row is one query
// head of one token) and one split. No lane meets another before the softmax, so that a row's bits
// do not depend on the rows beside it; every instruction set does the same arithmetic in the same
// order, so that one numerics id covers them.
#pragma once

#include "kernels/cpu/kv_attention/split.h"

namespace kvern::kernels::cpu {

inline constexpr int64_t kBlockRows = 6;

struct QkBlock {
  const float* q;  // [rows, steps]
  const float* k;  // [kSplitBlocks][steps][16]
  int64_t steps;
  const float* k_scale;     // [kSplitBlocks][groups][16], or nullptr
  int64_t steps_per_group;  // steps where there are no scales
  int64_t groups;
  float scale;
  float* scores;  // [rows, kSplitTokens]
};

struct PvBlock {
  const float* weights;  // [rows, kSplitTokens]
  const float* v;        // [kSplitTokens, padded_dim]
  int64_t padded_dim;
  int64_t begin, end;  // positions
  float* out;          // [rows, padded_dim]
};

struct PvDirect {
  const KvRange& range;
  const SplitSource& from;
  const float* weights;  // [rows, kSplitTokens]
  int64_t padded_dim;
  float* out;  // [rows, padded_dim]
};

// What becomes of a row's scores before the softmax.
struct RowScore {
  float softcap = 0.0f;  // 0: none
  float slope = 0.0f;    // ALiBi's; 0: none
  float first = 0.0f;    // position of scores[0], less that of the row
};

struct RowTotal {
  float max = 0.0f;
  float sum = 0.0f;  // 0: the row saw nothing
};

// What an instruction set brings.
struct Isa {
  // q [dim] -> [steps] as the dot products take it: pairs of bf16, or f32.
  void (*stage_q)(QkInput input, const float* q, int64_t dim, float* to);
  // f16 -> f32, times factor.
  void (*stage_scales)(const std::byte* scales, int64_t count, float factor, float* to);
  // k: [kSplitBlocks][steps][16 positions] of 4 bytes. With bf16 input, codes of 8 bits come as
  // bf16, which is exact, and their scales apart: k_scale [kSplitBlocks][groups][16]. Positions
  // outside [begin, end) of a block that is touched hold those of another.
  void (*stage_k)(QkInput input, const KvRange& range, const SplitSource& from, float* k,
                  float* k_scale);
  // v: [kSplitTokens][padded_dim], columns beyond dim zero.
  void (*stage_v)(const KvRange& range, const SplitSource& from, int64_t padded_dim, float* v);
  // Scores of `rows` rows against position blocks [begin, end) of the split.
  void (*qk_block)(QkInput input, const QkBlock& block, int64_t rows, int64_t begin, int64_t end);
  // scores[begin, end) -> exp(score - max) in place, capped and sloped first.
  // scores: [kSplitTokens]
  RowTotal (*softmax_row)(float* scores, int64_t begin, int64_t end, const RowScore& how);
  // out[r,:] += sum over p in [begin, end), ascending, of weights[r,p] * v[p,:].
  void (*pv_block)(const PvBlock& block, int64_t rows);
  // out[r,:] = the same sum over all of [from.begin, from.end), V read from its pages.
  void (*pv_direct)(const PvDirect& direct, int64_t rows);
  // total, out = those of both parts, `part` covering later positions.
  void (*combine_row)(RowTotal& total, float* out, const RowTotal& part, const float* part_out,
                      int64_t padded_dim);
  // y[0, dim) = out / sum.
  void (*finish_row)(const RowTotal& total, const float* out, int64_t dim, float* y);
};

const Isa& avx512_isa();
const Isa& avx2_isa();  // QkInput::kF32 only

}  // namespace kvern::kernels::cpu
