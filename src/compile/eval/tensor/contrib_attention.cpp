// com.microsoft.MultiHeadAttention and com.microsoft.Attention: every head has its own keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compile/eval/tensor/attention_core.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/floats.h"

namespace kvern::eval {
namespace {

float plus(float a, float b) {
  return a + b;
}

// Which keys are padding, from a mask of integers in one of its forms: [batch] lengths, [2 * batch]
// ends and beginnings, [batch, keys], [batch, rows, keys] or [batch, 1, most, most] of 0 and 1.
class PaddingMask {
 public:
  PaddingMask(const OpCall& call, size_t index, const Shape& scores, bool unidirectional)
      : filter_(static_cast<float>(call.node.f("mask_filter_value", -10000))),
        past_(scores[3] - scores[2]),
        unidirectional_(unidirectional) {
    if (!call.has(index)) return;
    const int64_t batch = scores[0], rows = scores[2], keys = scores[3];
    values_ = integers_of(call, index);
    begins_ = static_cast<int64_t>(values_.size()) == 2 * batch;
    shape_ = call.in(index).shape();
    const bool lengths = shape_.size() == 1 && (shape_[0] == batch || shape_[0] == 2 * batch);
    const bool square = shape_.size() == 4 && shape_[0] == batch && shape_[1] == 1 &&
                        shape_[2] == shape_[3] && shape_[2] >= keys;
    const bool fits =
        lengths || square || shape_ == Shape{batch, keys} || shape_ == Shape{batch, rows, keys};
    if (!fits) {
      call.unsupported(
          fmt::format("a mask of shape {} for scores of {}", to_string(shape_), to_string(scores)));
    }
  }

  void add(int64_t batch, int64_t row, std::span<float> scores) const {
    const auto keys = static_cast<int64_t>(scores.size());
    for (int64_t t = 0; t < keys; ++t) {
      float& score = scores[static_cast<size_t>(t)];
      if (unidirectional_ && t > past_ + row) {
        score = std::numeric_limits<float>::lowest();
      } else if (hidden(batch, row, t, keys)) {
        score += filter_;
      }
    }
  }

 private:
  bool hidden(int64_t batch, int64_t row, int64_t t, int64_t keys) const {
    const auto at = [&](int64_t index) { return values_[static_cast<size_t>(index)]; };
    switch (shape_.size()) {
      case 0:
        return false;
      case 1: {
        const auto half = static_cast<int64_t>(values_.size()) / 2;
        return t >= at(batch) || (begins_ && t < at(half + batch));
      }
      case 2:
        return at(batch * keys + t) == 0;
      case 3:
        return at((batch * shape_[1] + row) * keys + t) == 0;
      default:
        return at((batch * shape_[2] + past_ + row) * shape_[3] + t) == 0;
    }
  }

  float filter_;
  int64_t past_;
  bool unidirectional_;
  bool begins_ = false;
  std::vector<int64_t> values_;
  Shape shape_;
};

struct HeadsOfAll {
  Array q, k, v;  // f32 [batch, heads, tokens, dim]
};

// What both ops do once they have heads: past, scores, present.
struct Ending {
  size_t mask_index, bias_index;
  Array past_k, past_v;  // no type: none
};

Arrays finish(const OpCall& call, const HeadsOfAll& in, const Ending& end, Array* all_k,
              Array* all_v) {
  const ElementType type = call.in(0).type();
  const bool past = end.past_k.type() != ElementType::kUndefined;
  *all_k = past ? append_rows(call, end.past_k, in.k) : in.k;
  *all_v = past ? append_rows(call, end.past_v, in.v) : in.v;
  const Shape scores = {in.q.shape()[0], in.q.shape()[1], in.q.shape()[2], all_k->shape()[2]};
  const PaddingMask padding(call, end.mask_index, scores, call.node.i("unidirectional", 0) != 0);
  MaskBias bias;
  if (call.has(end.bias_index)) {
    bias = MaskBias(call, floats_in(call, end.bias_index), scores, false);
  }
  const double given = call.node.f("scale", 0);
  const double dim = static_cast<double>(in.q.shape()[3]);
  const AttentionJob job = {
      .q = in.q,
      .k = *all_k,
      .v = *all_v,
      .scale = static_cast<float>(given == 0 ? 1 / std::sqrt(dim) : given),
      .softcap = 0,
      .bias =
          [&](int64_t b, int64_t h, int64_t row, std::span<float> row_scores) {
            bias.add(b, h, row, row_scores);
            padding.add(b, row, row_scores);
          },
      .sinks = {},
      .scores = nullptr,
      .stage = ScoreStage::kRaw,
  };
  return {from_floats(heads_last(run_attention(call, job)), type)};
}

// Part `part` of [batch, tokens, heads, parts, dim] as [batch, heads, tokens, dim].
Array part_of(const Array& packed, int64_t part) {
  const Shape& shape = packed.shape();
  const Shape out_shape = {shape[0], shape[2], shape[1], shape[4]};
  Array out(ElementType::kFloat, out_shape);
  const Strides from = dense_strides(shape);
  const auto offset = static_cast<size_t>(part * shape[4]) * sizeof(float);
  if (packed.count() > 0) {
    copy_strided(sizeof(float), out_shape, packed.bytes().data() + offset,
                 {from[0], from[2], from[1], from[4]}, out.mutable_bytes().data(),
                 dense_strides(out_shape));
  }
  return out;
}

// x [batch, tokens, hidden] plus a stretch of the bias, as heads.
Array biased_heads(const OpCall& call, const Array& x, int64_t heads, int64_t first) {
  Array sum = x;
  if (call.has(3)) {
    const Array bias = floats_in(call, 3);
    const int64_t size = x.shape().back();
    if (bias.rank() != 1 || bias.count() < first + size) {
      call.fail(fmt::format("the bias of shape {} is too short", to_string(bias.shape())));
    }
    const auto stretch =
        bias.as<float>().subspan(static_cast<size_t>(first), static_cast<size_t>(size));
    sum = combine<float, float, float>(
        call, x, Array::of<float>(ElementType::kFloat, {size}, stretch), ElementType::kFloat, plus);
  }
  return heads_first(call, sum, heads);
}

HeadsOfAll mha_heads(const OpCall& call, int64_t heads) {
  const Array query = floats_in(call, 0);
  if (query.rank() == 5) {
    if (query.shape()[3] != 3 || query.shape()[2] != heads || call.has(3)) {
      call.unsupported("a packed query must be [batch, tokens, heads, 3, dim], without bias");
    }
    return {part_of(query, 0), part_of(query, 1), part_of(query, 2)};
  }
  if (query.rank() != 3) call.fail("the query must be [batch, tokens, heads * dim]");
  const int64_t hidden = query.shape()[2];
  HeadsOfAll out;
  out.q = biased_heads(call, query, heads, 0);
  const Array key = floats_in(call, 1);
  if (key.rank() == 5) {
    if (key.shape()[3] != 2 || key.shape()[2] != heads || call.has(3)) {
      call.unsupported("packed keys must be [batch, tokens, heads, 2, dim], without bias");
    }
    out.k = part_of(key, 0);
    out.v = part_of(key, 1);
  } else if (key.rank() == 4) {  // keys of another sequence, computed before
    if (call.has(3)) call.unsupported("a bias with keys of another sequence");
    out.k = key;
    out.v = floats_in(call, 2);
  } else {
    out.k = biased_heads(call, key, heads, hidden);
    out.v = biased_heads(call, floats_in(call, 2), heads, 2 * hidden);
  }
  return out;
}

}  // namespace

Arrays eval_multi_head_attention(const OpCall& call) {
  const HeadsOfAll in = mha_heads(call, call.node.i("num_heads", 0));
  if (call.has(8) || call.has(9)) {
    call.unsupported("buffers that are shared or indexed by beams are not supported");
  }
  if (call.node.has_output(3)) call.unsupported("the output of scores is not supported");
  if (call.has(6) != call.has(7)) call.fail("past_key and past_value go together");
  Ending end{.mask_index = 4, .bias_index = 5, .past_k = {}, .past_v = {}};
  if (call.has(6)) {
    end.past_k = floats_in(call, 6);
    end.past_v = floats_in(call, 7);
  }
  Array k, v;
  Arrays out = finish(call, in, end, &k, &v);
  const ElementType type = call.in(0).type();
  out.push_back(from_floats(k, type));
  out.push_back(from_floats(v, type));
  return out;
}

Arrays eval_ms_attention(const OpCall& call) {
  if (call.node.i("do_rotary", 0) != 0) call.unsupported("do_rotary is not supported");
  if (call.has(6) || call.node.i("past_present_share_buffer", 0) != 0) {
    call.unsupported("a shared buffer is not supported");
  }
  const Array* const product_inputs[] = {&call.in(0), &call.in(1)};
  Array qkv = to_floats(eval_matmul({call.node, product_inputs, {}})[0]);
  if (qkv.rank() != 3) call.fail("the input must be [batch, tokens, hidden]");
  if (call.has(2)) {
    const Shape shape = qkv.shape();
    qkv = combine<float, float, float>(call, qkv, floats_in(call, 2), ElementType::kFloat, plus);
    if (qkv.shape() != shape) call.fail("the bias is larger than the product");
  }
  const int64_t width = qkv.shape()[2];
  auto sizes = call.node.ints("qkv_hidden_sizes");
  if (sizes.empty()) sizes = {width / 3, width / 3, width / 3};
  const bool fits = sizes.size() == 3 && std::min({sizes[0], sizes[1], sizes[2]}) >= 0 &&
                    std::max({sizes[0], sizes[1], sizes[2]}) <= width &&
                    sizes[0] + sizes[1] + sizes[2] == width;
  if (!fits) call.fail(fmt::format("qkv_hidden_sizes do not add up to {}", width));
  const int64_t heads = call.node.i("num_heads", 0);
  const auto part = [&](int64_t first, int64_t size) {
    const Shape shape = {qkv.shape()[0], qkv.shape()[1], size};
    Array out(ElementType::kFloat, shape);
    copy_strided(sizeof(float), shape,
                 qkv.bytes().data() + static_cast<size_t>(first) * sizeof(float),
                 dense_strides(qkv.shape()), out.mutable_bytes().data(), dense_strides(shape));
    return heads_first(call, out, heads);
  };
  const HeadsOfAll in{part(0, sizes[0]), part(sizes[0], sizes[1]),
                      part(sizes[0] + sizes[1], sizes[2])};
  Ending end{.mask_index = 3, .bias_index = 5, .past_k = {}, .past_v = {}};
  if (call.has(4)) {  // [2, batch, heads, past, dim]
    const Array past = floats_in(call, 4);
    const Shape& shape = past.shape();
    if (shape.size() != 5 || shape[0] != 2)
      call.fail("the past must be [2, batch, heads, past, dim]");
    const auto half = static_cast<size_t>(past.count() / 2);
    const Shape one = {shape[1], shape[2], shape[3], shape[4]};
    end.past_k = Array::of<float>(ElementType::kFloat, one, past.as<float>().first(half));
    end.past_v = Array::of<float>(ElementType::kFloat, one, past.as<float>().last(half));
  }
  Array k, v;
  Arrays out = finish(call, in, end, &k, &v);
  if (!call.node.has_output(1)) return out;
  if (k.shape() != v.shape()) call.unsupported("a present of keys and values of two sizes");
  Array present(ElementType::kFloat, {2, k.shape()[0], k.shape()[1], k.shape()[2], k.shape()[3]});
  const auto to = present.mutable_as<float>();
  std::copy(k.as<float>().begin(), k.as<float>().end(), to.begin());
  std::copy(v.as<float>().begin(), v.as<float>().end(), to.begin() + k.count());
  out.push_back(from_floats(present, call.in(0).type()));
  return out;
}

}  // namespace kvern::eval
