// One task of attention: a tile of tokens and one KV head, over one split or all of them.
#pragma once

#include <algorithm>

#include "base/function_ref.h"
#include "kernels/cpu/kv_attention/isa.h"
#include "kernels/cpu/kv_attention/tiles.h"

namespace kvern::kernels::cpu {

// 48 rows of q (6 KB at dim 64) spread one staging of K and V; beyond that little is left to gain.
inline constexpr int64_t kTileRows = 48;

// A float format has no groups and may say anything of their size: none of its heads ends one.
inline KvRange with_groups(KvRange range, const KvFormat& format) {
  if (!format.quantised()) range.group = kMaxHeadDim;
  return range;
}

// What every task of a launch shares.
struct TaskShape {
  const Isa& isa;
  QkInput input;
  KvRange k, v;
  int64_t group;  // query heads per KV head
  int64_t tile_rows;
  int64_t steps;
  int64_t k_groups, v_groups;  // 0: a float format
  int64_t scale_groups;        // of K, 0 where QK takes none
  int64_t padded_v;
  int64_t block_rows;

  TaskShape(const KvAttentionDesc& desc, const Isa& instructions, QkInput qk_input)
      : isa(instructions),
        input(qk_input),
        k(with_groups(KvRange::k_of(desc), desc.k_format())),
        v(with_groups(KvRange::v_of(desc), desc.v_format())),
        group(desc.heads / desc.kv_heads),
        tile_rows(std::max<int64_t>(1, kTileRows / group) * group),
        steps(dot_steps(qk_input, desc.dim_k)),
        k_groups(desc.k_format().groups(desc.dim_k)),
        v_groups(desc.v_format().groups(desc.dim_v)),
        scale_groups(qk_input == QkInput::kBf16 ? k_groups : 0),
        padded_v((desc.dim_v + kLanes - 1) / kLanes * kLanes),
        block_rows(std::min(kBlockRows, tile_rows)) {}

  int64_t tile_tokens() const { return tile_rows / group; }
  int64_t q_floats() const { return (tile_rows * steps + 15) / 16 * 16; }
  int64_t k_floats() const { return kSplitTokens * steps; }
  int64_t scale_floats() const { return kSplitTokens * (scale_groups + k_groups + v_groups); }
  int64_t v_floats() const { return kSplitTokens * padded_v; }
  int64_t total_floats() const { return (2 * tile_rows + 15) / 16 * 16; }
  int64_t thread_floats() const {
    return total_floats() + q_floats() + k_floats() + scale_floats() + v_floats() +
           tile_rows * padded_v + block_rows * (kSplitTokens + padded_v);
  }
};

// A thread's memory.
struct Workspace {
  RowTotal* totals;  // [tile_rows]
  float *q, *k, *k_scale, *k_row_scale, *v_row_scale, *v, *out, *scores, *part_out;
  Workspace(const TaskShape& shape, float* at) {
    totals = reinterpret_cast<RowTotal*>(at);
    q = at + shape.total_floats();
    k = q + shape.q_floats();
    k_scale = k + shape.k_floats();
    k_row_scale = k_scale + kSplitTokens * shape.scale_groups;
    v_row_scale = k_row_scale + kSplitTokens * shape.k_groups;
    v = k_scale + shape.scale_floats();
    out = v + shape.v_floats();
    scores = out + shape.tile_rows * shape.padded_v;
    part_out = scores + shape.block_rows * kSplitTokens;
  }
};

// Rows are token-major: row / group is the token.
class Task {
 public:
  // Gets what a split gives to a row that sees some of it.
  using Take = FunctionRef<void(int64_t row, const RowTotal& part, const float* part_out)>;

  // memory: shape.thread_floats() floats, 64-byte aligned.
  Task(const KvAttentionDesc& desc, const TaskShape& shape, const KvAttentionArgs& args,
       const QueryTile& tile, int64_t kv_head, float* memory);

  int64_t rows() const { return rows_; }
  int64_t first_split() const { return first_ / kSplitTokens; }
  int64_t end_split() const {
    return (tile_.position + tile_.tokens + kSplitTokens - 1) / kSplitTokens;
  }

  void run_split(int64_t split, Take take);
  void run_all();
  // Writes a row of y: all its splits, and its head's sink. total, out: spent.
  void finish(int64_t row, RowTotal& total, float* out) const;

 private:
  // Positions of the split at hand, relative to its start; may be empty.
  struct Range {
    int64_t begin, end;
  };

  int64_t head(int64_t row) const { return kv_head_ * shape_.group + row % shape_.group; }
  Range seen(int64_t row) const;
  RowScore score_of(int64_t row) const;
  void stage();
  void ask_scales(int64_t begin, int64_t end) const;
  void stage_scales(const KvRange& range, const std::byte* from, int64_t position, int64_t count,
                    int64_t groups, float factor, float* to) const;
  void run_block(int64_t first, int64_t last, Take take);
  void score(int64_t first, int64_t count, Range any) const;
  void weigh(int64_t count, const Range* each, Range all) const;

  const KvAttentionDesc& desc_;
  const TaskShape& shape_;
  const KvAttentionArgs& args_;
  const QueryTile& tile_;
  int64_t kv_head_;
  int64_t rows_;
  int64_t first_;
  // Every row sees the same positions, and each V is read by one block: it is not staged.
  bool direct_;
  int64_t start_ = 0;  // first position of the split at hand
  SplitSource from_;   // of the split at hand
  Workspace w_;
};

}  // namespace kvern::kernels::cpu
