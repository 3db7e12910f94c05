// The ONNX standard's Attention, opsets 23, 24 and 25. Where releases of the standard differ in
// meaning (reference: errata in place), the newest counts: softcap before the mask, score outputs
// 1 = capped and 2 = with bias, causal from the end of the past.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compile/eval/tensor/attention_core.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/floats.h"

namespace kvern::eval {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// Which keys a query sees by position. Query i of sequence b stands at offset[b] + i.
struct Visibility {
  bool causal = false;
  int64_t left = -1;  // window attributes of opset 25; -1: no bound
  int64_t right = -1;
  std::vector<int64_t> offsets;  // of each sequence
  std::vector<int64_t> lengths;  // keys that are no padding, of each sequence; empty: all

  void hide(int64_t batch, int64_t row, std::span<float> scores) const {
    const auto keys = static_cast<int64_t>(scores.size());
    const auto b = static_cast<size_t>(batch);
    const int64_t at = offsets[b] + row;
    int64_t begin = 0;
    int64_t end = lengths.empty() ? keys : lengths[b];
    if (causal) end = std::min(end, at + 1);
    if (right >= 0) end = std::min(end, at + right + 1);
    if (left >= 0) begin = at - left;
    begin = std::clamp<int64_t>(begin, 0, keys);
    end = std::clamp<int64_t>(end, begin, keys);
    std::fill(scores.begin(), scores.begin() + begin, kNegInf);
    std::fill(scores.begin() + end, scores.end(), kNegInf);
  }
};

int64_t window_attr(const OpCall& call, const char* name) {
  const int64_t size = call.node.i(name, -1);
  if (size < -1 || size > (int64_t{1} << 40)) call.fail(fmt::format("'{}' is {}", name, size));
  return size;
}

Visibility visibility_of(const OpCall& call, int64_t batch, int64_t rows, int64_t past,
                         int64_t keys) {
  Visibility out;
  out.causal = call.node.i("is_causal", 0) != 0;
  out.left = window_attr(call, "left_window_size");
  out.right = window_attr(call, "right_window_size");
  out.offsets.assign(static_cast<size_t>(batch), past);
  if (!call.has(6)) return out;
  if (call.has(4)) call.fail("nonpad_kv_seqlen and a past exclude each other");
  out.lengths = integers_of(call, 6);
  if (static_cast<int64_t>(out.lengths.size()) != batch) {
    call.fail(fmt::format("nonpad_kv_seqlen has {} entries for a batch of {}", out.lengths.size(),
                          batch));
  }
  for (size_t b = 0; b < out.lengths.size(); ++b) {
    if (out.lengths[b] < 0 || out.lengths[b] > keys) {
      call.fail(fmt::format("nonpad_kv_seqlen is {} of {} keys", out.lengths[b], keys));
    }
    // The new tokens are the last of those that are no padding.
    out.offsets[b] = out.lengths[b] - rows;
  }
  return out;
}

// Q, K or V as [batch, heads, tokens, dim].
Array four_dims(const OpCall& call, size_t index, const char* heads_attr) {
  const Array& array = call.in(index);
  const size_t rank = call.in(0).shape().size();
  if (array.shape().size() != rank || (rank != 3 && rank != 4)) {
    call.fail(fmt::format("input {} has shape {}; Q, K and V must all be of rank 3 or of rank 4",
                          index, to_string(array.shape())));
  }
  return rank == 4 ? array : heads_first(call, array, call.node.i(heads_attr, 0));
}

ScoreStage stage_of(const OpCall& call) {
  const int64_t mode = call.node.i("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) call.fail(fmt::format("qk_matmul_output_mode is {}", mode));
  constexpr ScoreStage kStages[] = {ScoreStage::kRaw, ScoreStage::kCapped, ScoreStage::kBiased,
                                    ScoreStage::kSoftmax};
  return kStages[mode];
}

}  // namespace

Arrays eval_attention(const OpCall& call) {
  const TensorNode& node = call.node;
  const Array q = four_dims(call, 0, "q_num_heads");
  Array k = four_dims(call, 1, "kv_num_heads");
  Array v = four_dims(call, 2, "kv_num_heads");
  if (call.has(4) != call.has(5)) call.fail("past_key and past_value go together");
  const int64_t past = call.has(4) && call.in(4).rank() == 4 ? call.in(4).shape()[2] : 0;
  if (call.has(4)) {
    k = append_rows(call, call.in(4), k);
    v = append_rows(call, call.in(5), v);
  }
  const int64_t batch = q.shape()[0], rows = q.shape()[2], keys = k.shape()[2];
  const Visibility visible = visibility_of(call, batch, rows, past, keys);
  const Shape score_shape = {batch, q.shape()[1], rows, keys};
  MaskBias mask;
  if (call.has(3)) mask = MaskBias(call, call.in(3), score_shape, node.opset >= 24);
  Array scores;
  const double dim = static_cast<double>(q.shape()[3]);
  const AttentionJob job = {
      .q = to_floats(q),
      .k = to_floats(k),
      .v = to_floats(v),
      .scale = static_cast<float>(node.f("scale", 1.0 / std::sqrt(dim))),
      .softcap = static_cast<float>(node.f("softcap", 0)),
      .bias =
          [&](int64_t b, int64_t h, int64_t row, std::span<float> row_scores) {
            mask.add(b, h, row, row_scores);
            visible.hide(b, row, row_scores);
          },
      .sinks = {},
      .scores = node.has_output(3) ? &scores : nullptr,
      .stage = stage_of(call),
  };
  const Array y = from_floats(run_attention(call, job), q.type());
  Arrays out = {call.in(0).rank() == 4 ? y : heads_last(y), k, v};
  if (node.has_output(3)) out.push_back(from_floats(scores, q.type()));
  return out;
}

}  // namespace kvern::eval
