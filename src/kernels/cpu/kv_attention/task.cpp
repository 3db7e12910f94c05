#include "kernels/cpu/kv_attention/task.h"

namespace kvern::kernels::cpu {

Task::Task(const KvAttentionDesc& desc, const TaskShape& shape, const KvAttentionArgs& args,
           const QueryTile& tile, int64_t kv_head, float* memory)
    : desc_(desc),
      shape_(shape),
      args_(args),
      tile_(tile),
      kv_head_(kv_head),
      rows_(tile.tokens * shape.group),
      first_(first_visible(desc, tile.position)),
      direct_(tile.tokens == 1 && shape.group <= kBlockRows),
      w_(shape, memory) {
  from_.k_scale = w_.k_row_scale;
  from_.v_scale = w_.v_row_scale;
  from_.k_groups = shape.k_groups;
  from_.v_groups = shape.v_groups;
  for (int64_t row = 0; row < rows_; ++row) {
    shape.isa.stage_q(shape.input,
                      args.q + (tile.first_row + row / shape.group) * args.q_stride +
                          (kv_head * shape.group + row % shape.group) * desc.dim_k,
                      desc.dim_k, w_.q + row * shape.steps);
  }
}

void Task::run_split(int64_t split, Take take) {
  start_ = split * kSplitTokens;
  stage();
  const int64_t num_blocks = (rows_ + kBlockRows - 1) / kBlockRows;
  for (int64_t b = 0; b < num_blocks; ++b) {
    run_block(rows_ * b / num_blocks, rows_ * (b + 1) / num_blocks, take);
  }
}

void Task::run_all() {
  std::fill_n(w_.totals, rows_, RowTotal{});
  for (int64_t split = first_split(); split < end_split(); ++split) {
    run_split(split, [&](int64_t row, const RowTotal& part, const float* part_out) {
      shape_.isa.combine_row(w_.totals[row], w_.out + row * shape_.padded_v, part, part_out,
                             shape_.padded_v);
    });
  }
  for (int64_t row = 0; row < rows_; ++row)
    finish(row, w_.totals[row], w_.out + row * shape_.padded_v);
}

void Task::finish(int64_t row, RowTotal& total, float* out) const {
  // A sink is a split of one position whose V is zero.
  alignas(64) static constexpr float kZero[kMaxHeadDim] = {};
  if (args_.sinks != nullptr) {
    shape_.isa.combine_row(total, out, {args_.sinks[head(row)], 1.0f}, kZero, shape_.padded_v);
  }
  shape_.isa.finish_row(
      total, out, desc_.dim_v,
      args_.y + (tile_.first_row + row / shape_.group) * args_.y_stride + head(row) * desc_.dim_v);
}

RowScore Task::score_of(int64_t row) const {
  const int64_t position = tile_.position + row / shape_.group;
  return {desc_.softcap, args_.alibi == nullptr ? 0.0f : args_.alibi[head(row)],
          static_cast<float>(start_ - position)};
}

Task::Range Task::seen(int64_t row) const {
  const int64_t position = tile_.position + row / shape_.group;
  return {std::max(first_visible(desc_, position) - start_, int64_t{0}),
          std::min<int64_t>(position + 1 - start_, kSplitTokens)};
}

// Rows of scales [position, position + count) of the split, which follow each other in their page.
void Task::stage_scales(const KvRange& range, const std::byte* from, int64_t position,
                        int64_t count, int64_t groups, float factor, float* to) const {
  count = std::min(count, from_.end - position);
  to += position * groups;
  if (range.scale_token_bytes == 2 * groups) {
    if (count > 0) shape_.isa.stage_scales(from, count * groups, factor, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    shape_.isa.stage_scales(from + i * range.scale_token_bytes, groups, factor, to + i * groups);
  }
}

namespace {

// Zero around [begin, end), to the edges of its blocks.
void clear_edges(int64_t begin, int64_t end, int64_t groups, float* scales) {
  std::fill(scales + begin / kLanes * kLanes * groups, scales + begin * groups, 0.0f);
  std::fill(scales + end * groups, scales + (end + kLanes - 1) / kLanes * kLanes * groups, 0.0f);
}

float scale_factor(const KvRange& range, bool as_f16) {
  return range.storage == DType::kF8E4M3 && as_f16 ? 256.0f : 1.0f;
}

}  // namespace

// Asks for the scales of positions [begin, end), a split ahead: they are few, and lie apart.
// Always inline: g++ 12 drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void Task::ask_scales(int64_t begin, int64_t end) const {
  if (shape_.k_groups == 0 && shape_.v_groups == 0) return;
  const KvPages& pages = args_.step->kv[static_cast<size_t>(desc_.kv_group)];
  const auto ask = [&](const KvRange& range, const std::byte* page, int64_t token, int64_t count) {
    const std::byte* at = range.scales(page, kv_head_, token);
    for (int64_t byte = 0; byte < count * range.scale_token_bytes; byte += 64) {
      __builtin_prefetch(at + byte, 0, 1);
    }
  };
  for (int64_t p = begin; p < end;) {
    const std::byte* page = page_of(pages, tile_.sequence, start_ + p);
    const int64_t token = (start_ + p) % pages.page_tokens;
    const int64_t count = std::min(pages.page_tokens - token, end - p);
    ask(shape_.k, page, token, count);
    ask(shape_.v, page, token, count);
    p += count;
  }
}

void Task::stage() {
  const KvPages& pages = args_.step->kv[static_cast<size_t>(desc_.kv_group)];
  const KvRange& k = shape_.k;
  const KvRange& v = shape_.v;
  SplitSource& from = from_;
  from.begin = std::max(first_ - start_, int64_t{0});
  const int64_t left = tile_.position + tile_.tokens - start_;
  from.end = std::min<int64_t>(left, kSplitTokens);
  from.ahead_end = std::min<int64_t>(left, kSplitTokens + kAheadTokens);
  const float k_factor = scale_factor(k, shape_.input == QkInput::kF32);
  const float v_factor = scale_factor(v, true);
  // Page by page: a division per position would cost more than its dots.
  for (int64_t p = from.begin; p < from.ahead_end;) {
    const std::byte* page = page_of(pages, tile_.sequence, start_ + p);
    const int64_t token = (start_ + p) % pages.page_tokens;
    const int64_t count = std::min(pages.page_tokens - token, from.ahead_end - p);
    const std::byte* k_codes = k.codes(page, kv_head_, token);
    const std::byte* v_codes = v.codes(page, kv_head_, token);
    for (int64_t i = 0; i < count; ++i) {
      from.k[p + i] = k_codes + i * k.token_bytes;
      from.v[p + i] = v_codes + i * v.token_bytes;
    }
    if (shape_.k_groups > 0) {
      stage_scales(k, k.scales(page, kv_head_, token), p, count, shape_.k_groups, k_factor,
                   from.k_scale);
    }
    if (shape_.v_groups > 0) {
      stage_scales(v, v.scales(page, kv_head_, token), p, count, shape_.v_groups, v_factor,
                   from.v_scale);
    }
    p += count;
  }
  ask_scales(from.end, std::min<int64_t>(left, 2 * kSplitTokens));
  clear_edges(from.begin, from.end, shape_.k_groups, from.k_scale);
  shape_.isa.stage_k(shape_.input, k, from, w_.k, w_.k_scale);
  if (!direct_) shape_.isa.stage_v(v, from, shape_.padded_v, w_.v);
}

void Task::run_block(int64_t first, int64_t last, Take take) {
  const int64_t count = last - first;
  Range any{kSplitTokens, 0};
  Range all{0, kSplitTokens};
  Range each[kBlockRows];
  for (int64_t r = 0; r < count; ++r) {
    each[r] = seen(first + r);
    any = {std::min(any.begin, each[r].begin), std::max(any.end, each[r].end)};
    all = {std::max(all.begin, each[r].begin), std::min(all.end, each[r].end)};
  }
  if (any.begin >= any.end) return;
  score(first, count, any);
  RowTotal totals[kBlockRows];
  for (int64_t r = 0; r < count; ++r) {
    totals[r] = each[r].begin < each[r].end
                    ? shape_.isa.softmax_row(w_.scores + r * kSplitTokens, each[r].begin,
                                             each[r].end, score_of(first + r))
                    : RowTotal{};
  }
  weigh(count, each, all);
  for (int64_t r = 0; r < count; ++r) {
    if (totals[r].sum != 0.0f) take(first + r, totals[r], w_.part_out + r * shape_.padded_v);
  }
}

void Task::score(int64_t first, int64_t count, Range any) const {
  const bool scaled = shape_.scale_groups > 0;
  const QkBlock block{.q = w_.q + first * shape_.steps,
                      .k = w_.k,
                      .steps = shape_.steps,
                      .k_scale = scaled ? w_.k_scale : nullptr,
                      .steps_per_group = scaled ? shape_.k.group / 2 : shape_.steps,
                      .groups = scaled ? shape_.scale_groups : 1,
                      .scale = desc_.scale,
                      .scores = w_.scores};
  shape_.isa.qk_block(shape_.input, block, count, any.begin / kLanes,
                      (any.end + kLanes - 1) / kLanes);
}

// Positions that all rows see go through the wide kernel, the others row by row before and after.
void Task::weigh(int64_t count, const Range* each, Range all) const {
  const int64_t width = shape_.padded_v;
  if (direct_) {
    return shape_.isa.pv_direct({shape_.v, from_, w_.scores, width, w_.part_out}, count);
  }
  std::fill_n(w_.part_out, count * width, 0.0f);
  const auto one = [&](int64_t r, int64_t begin, int64_t end) {
    if (begin >= end) return;
    shape_.isa.pv_block(
        {w_.scores + r * kSplitTokens, w_.v, width, begin, end, w_.part_out + r * width}, 1);
  };
  const bool joint = all.begin < all.end;
  for (int64_t r = 0; r < count; ++r) one(r, each[r].begin, joint ? all.begin : each[r].end);
  if (!joint) return;
  shape_.isa.pv_block({w_.scores, w_.v, width, all.begin, all.end, w_.part_out}, count);
  for (int64_t r = 0; r < count; ++r) one(r, all.end, each[r].end);
}

}  // namespace kvern::kernels::cpu
