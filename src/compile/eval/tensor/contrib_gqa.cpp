// com.microsoft.GroupQueryAttention: rotation, cache and attention in one. Shapes are named as in
// infer_attention.cpp. seqlens_k holds the total length of each sequence less one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compile/eval/tensor/attention_core.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/rotary.h"

namespace kvern::eval {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();
constexpr int64_t kMaxTokens = int64_t{1} << 31;

// Inputs by their places.
enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kSeqlens,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSinks,
  kKScale,
  kVScale,
  kQNorm,
  kKNorm,
};

// How long one sequence is, before this call and with it, and where its cache begins.
struct Span {
  int64_t past = 0;     // tokens before the new ones
  int64_t total = 0;    // with them
  int64_t dropped = 0;  // of the past, those that a sliding cache no longer holds
};

struct Sizes {
  int64_t batch = 0, rows = 0, heads = 0, kv_heads = 0, dim = 0;
  int64_t total = 0;     // of the longest sequence
  int64_t capacity = 0;  // rows of the cache that comes in
  int64_t present = 0;   // rows of the one that goes out
  int64_t window = -1;
  bool sliding = false;
  bool causal = true;
  std::vector<Span> spans;  // per sequence
};

int64_t heads_attr(const OpCall& call, const char* name) {
  const int64_t heads = call.node.i(name, 0);
  if (heads <= 0 || heads > (1 << 20)) call.fail(fmt::format("'{}' is {}", name, heads));
  return heads;
}

// Tokens that a sliding cache of `capacity` rows holds after `total`: never a ring, it drops
// capacity - window + 1 rows at a time.
int64_t resident(int64_t total, int64_t capacity, int64_t window) {
  if (total <= capacity) return total;
  const int64_t step = capacity - window + 1;
  return total - step * ((total - capacity + step - 1) / step);
}

void read_spans(const OpCall& call, Sizes* s) {
  const std::vector<int64_t> seqlens = integers_of(call, kSeqlens);
  if (static_cast<int64_t>(seqlens.size()) != s->batch) {
    call.fail(fmt::format("seqlens_k has {} entries for a batch of {}", seqlens.size(), s->batch));
  }
  const bool first = s->rows == s->total;  // a whole prompt, padded to the right
  if (!first && s->rows > 1 && s->batch > 1) {
    call.unsupported("several new tokens after a past are for a batch of one only");
  }
  for (const int64_t last : seqlens) {
    Span span;
    span.total = last + 1;
    span.past = first ? 0 : span.total - s->rows;
    if (last < 0 || span.total > s->total || span.past < 0) {
      call.fail(fmt::format("seqlens_k is {} with {} new tokens of {}", last, s->rows, s->total));
    }
    if (s->sliding) span.dropped = span.past - resident(span.past, s->capacity, s->window);
    if (span.past - span.dropped > s->capacity) {
      call.fail(fmt::format("a past of {} tokens is not in a cache of {}", span.past, s->capacity));
    }
    s->spans.push_back(span);
  }
}

Sizes sizes_of(const OpCall& call) {
  Sizes s;
  const Array& query = call.in(kQuery);
  if (query.rank() != 3) call.fail("the query must be [batch, tokens, heads * dim]");
  s.batch = query.shape()[0];
  s.rows = query.shape()[1];
  s.heads = heads_attr(call, "num_heads");
  s.kv_heads = heads_attr(call, "kv_num_heads");
  const int64_t parts = call.has(kKey) ? s.heads : s.heads + 2 * s.kv_heads;
  if (s.heads % s.kv_heads != 0 || query.shape()[2] % parts != 0) {
    call.fail(fmt::format("a query of {} is not cut into {} heads, {} of keys",
                          to_string(query.shape()), s.heads, s.kv_heads));
  }
  s.dim = query.shape()[2] / parts;
  const std::vector<int64_t> total = integers_of(call, kTotal);
  if (total.size() != 1 || total[0] < s.rows || total[0] > kMaxTokens) {
    call.fail("total_sequence_length must be one number, no less than the new tokens");
  }
  s.total = total[0];
  if (call.has(kPastKey) != call.has(kPastValue)) call.fail("past_key and past_value go together");
  if (call.has(kPastKey)) {
    const Shape& past = call.in(kPastKey).shape();
    const bool fits = past.size() == 4 && past[0] == s.batch && past[1] == s.kv_heads &&
                      past[3] == s.dim && call.in(kPastValue).shape() == past;
    if (!fits) {
      call.fail(fmt::format("a past of {} is not [{}, {}, past, {}]", to_string(past), s.batch,
                            s.kv_heads, s.dim));
    }
    s.capacity = past[2];
  }
  s.window = call.node.i("local_window_size", -1);
  s.causal = call.node.i("causal", 1) != 0;
  s.sliding = call.node.i("sliding_window_cache", 0) != 0;
  if (s.sliding && (s.window <= 0 || s.capacity < s.window)) {
    call.fail(fmt::format("a sliding cache of {} rows does not hold a window of {}", s.capacity,
                          s.window));
  }
  s.present = s.sliding ? s.capacity : std::max(s.total, s.capacity);
  read_spans(call, &s);
  return s;
}

void refuse_rest(const OpCall& call) {
  if (call.has(kKScale) || call.has(kVScale) || call.node.s("k_quant_type", "NONE") != "NONE" ||
      call.node.s("v_quant_type", "NONE") != "NONE") {
    call.unsupported("a quantised cache is not supported; export with a float cache");
  }
  if (call.node.has_output(3)) call.unsupported("the output of scores is not supported");
}

// Heads [first, first + count) of a packed input, or a whole one, as [batch, heads, rows, dim].
Array heads_of(const OpCall& call, const Sizes& s, size_t index, int64_t first, int64_t count) {
  const bool packed = !call.has(kKey);
  const Array& from = call.in(packed ? size_t{kQuery} : index);
  const int64_t heads = packed ? s.heads + 2 * s.kv_heads : count;
  const Shape wanted = {s.batch, s.rows, heads * s.dim};
  if (from.shape() != wanted) {
    call.fail(fmt::format("input {} has shape {}, wanted {}", index, to_string(from.shape()),
                          to_string(wanted)));
  }
  const Array all = heads_first(call, from, heads);
  if (!packed) return all;
  Array out(all.type(), {s.batch, count, s.rows, s.dim});
  const size_t head_bytes =
      all.bytes().size() / static_cast<size_t>(std::max<int64_t>(s.batch * heads, 1));
  std::byte* to = out.mutable_bytes().data();
  for (int64_t b = 0; b < s.batch; ++b) {
    const auto at = static_cast<size_t>(b * heads + first) * head_bytes;
    const size_t bytes = static_cast<size_t>(count) * head_bytes;
    if (bytes > 0) std::memcpy(to, all.bytes().data() + at, bytes);
    to += bytes;
  }
  return out;
}

// x / rms(x) * weight over each head.
Array normed(const OpCall& call, const Array& x, size_t weight_index) {
  if (!call.has(weight_index)) return x;
  const Shape& shape = x.shape();
  const Array weight = floats_in(call, weight_index, {shape[3]});
  const double epsilon = call.node.f("qk_norm_epsilon", 1e-6);
  Array out = to_floats(x);
  float* row = out.mutable_as<float>().data();
  const auto w = weight.as<float>();
  for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i, row += shape[3]) {
    double squares = 0;
    for (int64_t d = 0; d < shape[3]; ++d) squares += static_cast<double>(row[d]) * row[d];
    const auto factor =
        static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(shape[3]) + epsilon));
    for (int64_t d = 0; d < shape[3]; ++d) row[d] *= factor * w[static_cast<size_t>(d)];
  }
  return from_floats(out, x.type());
}

// cos and sin with a row for each new token. Padding after a short prompt turns by row 0.
RotaryTables tables_of(const OpCall& call, const Sizes& s) {
  RotaryTables tables = rotary_tables(call, kCos, kSin);
  tables.interleaved = call.node.i("rotary_interleaved", 0) != 0;
  if (call.has(kPositions)) {
    tables.rows = integers_of(call, kPositions);
    return tables;
  }
  for (const Span& span : s.spans) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const int64_t position = span.past + i;
      tables.rows.push_back(position < span.total ? position : 0);
    }
  }
  return tables;
}

// What attention reads: [batch, kv_heads, keys, dim], each sequence's cache and its new rows. Keys
// of a sequence begin at its span.dropped.
Array joined(const OpCall& call, const Sizes& s, size_t past_index, const Array& rows,
             int64_t keys) {
  Array out(rows.type(), {s.batch, s.kv_heads, keys, s.dim});
  const Array* past = call.has(past_index) ? &call.in(past_index) : nullptr;
  if (past != nullptr && past->type() != rows.type()) {
    call.fail("the past is of another type than the new keys and values");
  }
  const size_t row_bytes = static_cast<size_t>(s.dim) * ir::element_bytes(rows.type());
  std::byte* to = out.mutable_bytes().data();
  for (int64_t head = 0; head < s.batch * s.kv_heads; ++head) {
    const Span& span = s.spans[static_cast<size_t>(head / s.kv_heads)];
    const int64_t kept = span.past - span.dropped;
    std::byte* at = to + static_cast<size_t>(head * keys) * row_bytes;
    if (kept > 0) {
      std::memcpy(at, past->bytes().data() + static_cast<size_t>(head * s.capacity) * row_bytes,
                  static_cast<size_t>(kept) * row_bytes);
    }
    std::memcpy(at + static_cast<size_t>(kept) * row_bytes,
                rows.bytes().data() + static_cast<size_t>(head * s.rows) * row_bytes,
                static_cast<size_t>(s.rows) * row_bytes);
  }
  return out;
}

// The cache that goes out: the joined rows, without those that a sliding cache drops now.
Array present_of(const Sizes& s, const Array& all) {
  const int64_t keys = all.shape()[2];
  Array out(all.type(), {s.batch, s.kv_heads, s.present, s.dim});
  const size_t row_bytes = static_cast<size_t>(s.dim) * ir::element_bytes(all.type());
  std::byte* to = out.mutable_bytes().data();
  for (int64_t head = 0; head < s.batch * s.kv_heads; ++head) {
    const Span& span = s.spans[static_cast<size_t>(head / s.kv_heads)];
    const int64_t end = span.past + s.rows - span.dropped;
    int64_t begin = 0;
    if (s.sliding) {
      begin = span.total - resident(span.total, s.capacity, s.window) - span.dropped;
    }
    const int64_t count = std::min(end - begin, s.present);
    std::memcpy(to + static_cast<size_t>(head * s.present) * row_bytes,
                all.bytes().data() + static_cast<size_t>(head * keys + begin) * row_bytes,
                static_cast<size_t>(count) * row_bytes);
  }
  return out;
}

// attention_bias [batch or 1, heads or 1, rows, total], by absolute positions.
struct PositionBias {
  Array values;
  int64_t batch_stride = 0, head_stride = 0, columns = 0;

  PositionBias(const OpCall& call, const Sizes& s) {
    if (!call.has(kBias)) return;
    values = floats_in(call, kBias);
    const Shape& shape = values.shape();
    const bool fits = shape.size() == 4 && (shape[0] == 1 || shape[0] == s.batch) &&
                      (shape[1] == 1 || shape[1] == s.heads) && shape[2] == s.rows &&
                      shape[3] >= s.total;
    if (!fits) {
      call.fail(fmt::format("attention_bias of {} is not [{}, {}, {}, {}]", to_string(shape),
                            s.batch, s.heads, s.rows, s.total));
    }
    columns = shape[3];
    head_stride = shape[1] == 1 ? 0 : shape[2] * columns;
    batch_stride = shape[0] == 1 ? 0 : shape[1] * shape[2] * columns;
  }

  const float* row(int64_t batch, int64_t head, int64_t at) const {
    if (columns == 0) return nullptr;
    return values.as<float>().data() + batch * batch_stride + head * head_stride + at * columns;
  }
};

std::vector<float> sinks_of(const OpCall& call, const Sizes& s) {
  if (call.has(kSinks)) return floats_in(call, kSinks, {s.heads}).to_f32();
  if (call.node.i("smooth_softmax", 0) == 1) {
    return std::vector<float>(static_cast<size_t>(s.heads), 0.0F);
  }
  return {};
}

// Hides what a new token does not see, and adds the bias to the rest.
BiasFn visible_keys(const Sizes& s, const PositionBias& bias) {
  return [&s, &bias](int64_t b, int64_t h, int64_t row, std::span<float> scores) {
    const Span& span = s.spans[static_cast<size_t>(b)];
    const int64_t at = span.past + row;
    int64_t end = std::min(s.causal ? at + 1 : span.total, span.total);
    int64_t begin = s.window > 0 ? std::max<int64_t>(at + 1 - s.window, 0) : 0;
    const auto keys = static_cast<int64_t>(scores.size());
    end = std::clamp<int64_t>(end - span.dropped, 0, keys);
    begin = std::clamp<int64_t>(begin - span.dropped, 0, end);
    std::fill(scores.begin(), scores.begin() + begin, kNegInf);
    std::fill(scores.begin() + end, scores.end(), kNegInf);
    const float* added = bias.row(b, h, row);
    if (added == nullptr) return;
    for (int64_t t = begin; t < end; ++t) {
      scores[static_cast<size_t>(t)] += added[t + span.dropped];
    }
  };
}

}  // namespace

Arrays eval_group_query_attention(const OpCall& call) {
  refuse_rest(call);
  const Sizes s = sizes_of(call);
  Array q = normed(call, heads_of(call, s, kQuery, 0, s.heads), kQNorm);
  Array k = normed(call, heads_of(call, s, kKey, s.heads, s.kv_heads), kKNorm);
  const Array v = heads_of(call, s, kValue, s.heads + s.kv_heads, s.kv_heads);
  if (call.node.i("do_rotary", 0) != 0) {
    const RotaryTables tables = tables_of(call, s);
    q = rotate_heads(call, q, tables, 0);
    k = rotate_heads(call, k, tables, 0);
  }
  int64_t keys = 0;
  for (const Span& span : s.spans) keys = std::max(keys, span.past - span.dropped + s.rows);
  const Array all_k = joined(call, s, kPastKey, k, keys);
  const Array all_v = joined(call, s, kPastValue, v, keys);
  const PositionBias bias(call, s);
  const double scale = call.node.f("scale", 0);
  const AttentionJob job = {
      .q = to_floats(q),
      .k = to_floats(all_k),
      .v = to_floats(all_v),
      .scale = static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<double>(s.dim)) : scale),
      .softcap = static_cast<float>(call.node.f("softcap", 0)),
      .bias = visible_keys(s, bias),
      .sinks = sinks_of(call, s),
      .scores = nullptr,
      .stage = ScoreStage::kRaw,
  };
  const Array y = from_floats(run_attention(call, job), q.type());
  return {heads_last(y), present_of(s, all_k), present_of(s, all_v)};
}

}  // namespace kvern::eval
