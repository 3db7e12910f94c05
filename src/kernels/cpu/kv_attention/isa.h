// The three inner loops of attention, each for a block of at most kBlockRows rows (a row is one
// query head of one token) and one staged split. No lane meets another before the softmax, so that
// a row's bits do not depend on the rows beside it.
#pragma once

#include "kernels/cpu/kv_attention/avx512_stage.h"

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

// scores of `rows` rows against position blocks [begin, end) of the split.
void qk_block(QkInput input, const QkBlock& block, int64_t rows, int64_t begin, int64_t end);

struct RowTotal {
  float max = 0.0f;
  float sum = 0.0f;  // 0: the row saw nothing
};

// scores[begin, end) -> exp(score - max) in place.   scores: [kSplitTokens]
RowTotal softmax_row(float* scores, int64_t begin, int64_t end);

// out[r,:] += sum over p in [begin, end), ascending, of weights[r,p] * v[p,:].
// weights: [rows, kSplitTokens]; v: [kSplitTokens, padded_dim]; out: [rows, padded_dim]
void pv_block(const float* weights, const float* v, int64_t padded_dim, int64_t rows, int64_t begin,
              int64_t end, float* out);

// out[r,:] = the same sum over all of [from.begin, from.end), V read from its pages. out: [rows,
// padded_dim]
void pv_direct(const KvRange& range, const SplitSource& from, const float* weights, int64_t rows,
               int64_t padded_dim, float* out);

// total, out = those of both parts, `part` covering later positions.
void combine_row(RowTotal& total, float* out, const RowTotal& part, const float* part_out,
                 int64_t padded_dim);

// y[0, dim) = out / sum.
void finish_row(const RowTotal& total, const float* out, int64_t dim, float* y);

// q [dim] -> [steps] as the dot products take it: pairs of bf16, or f32.
void stage_q(QkInput input, const float* q, int64_t dim, float* to);

}  // namespace kvern::kernels::cpu
