// Ops that write and read K and V of the one sequence being evaluated.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/eval/rotate.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

void append(std::map<int64_t, HostTensor>& store, int64_t slot, const HostTensor& rows) {
  HostTensor& held = store[slot];
  if (held.shape.empty()) held.shape = {0, rows.shape[1]};
  if (held.shape[1] != rows.shape[1]) {
    throw Error(Code::kInvalidArgument,
                fmt::format("slot {} holds rows of {}, the graph appends {}", slot, held.shape[1],
                            rows.shape[1]));
  }
  held.shape[0] += rows.shape[0];
  held.f32.insert(held.f32.end(), rows.f32.begin(), rows.f32.end());
}

std::vector<HostTensor> eval_kv_append(const ir::Node& node, Inputs in, KvState& kv) {
  const int64_t slot = node.attrs.as<ir::KvAppendAttrs>().slot;
  append(kv.k, slot, *in[0]);
  append(kv.v, slot, *in[1]);
  return {HostTensor{}};
}

std::vector<HostTensor> eval_qkv_rope_append(const ir::Node& node, Inputs in, KvState& kv) {
  const auto& a = node.attrs.as<ir::QkvRopeAppendAttrs>();
  append(kv.k, a.slot, rotate(*in[1], *in[3], *in[4], {a.kv_heads, a.head_dim, a.interleaved}));
  append(kv.v, a.slot, *in[2]);
  return {rotate(*in[0], *in[3], *in[4], {a.heads, a.head_dim, a.interleaved}), HostTensor{}};
}

// First position that the token at `position` sees.
int64_t first_seen(const ir::KvAttentionAttrs& a, int64_t position) {
  switch (a.mask) {
    case ir::MaskKind::kWindow:
      return std::max<int64_t>(0, position - a.window + 1);
    case ir::MaskKind::kChunk:
      return position / a.window * a.window;
    default:
      return 0;
  }
}

// One head of one token. Scores are softmaxed in ascending order of position.
struct Head {
  const ir::KvAttentionAttrs& attrs;
  const float* q;  // [dim_k]
  const float* k;  // first position's row of this KV head; rows are k_stride apart
  const float* v;
  int64_t k_stride, v_stride;
  const float* sink;  // nullptr: none
  float slope;        // ALiBi; 0: none

  void run(int64_t position, std::vector<float>& scores, float* y) const {
    const int64_t first = first_seen(attrs, position);
    float largest = sink == nullptr ? -INFINITY : *sink;
    for (int64_t j = first; j <= position; ++j) {
      float dot = 0;
      for (int64_t i = 0; i < attrs.dim_k; ++i) dot += q[i] * k[j * k_stride + i];
      float score = dot * attrs.scale;
      if (attrs.softcap > 0) score = attrs.softcap * std::tanh(score / attrs.softcap);
      score += slope * static_cast<float>(j - position);
      scores[static_cast<size_t>(j)] = score;
      largest = std::max(largest, score);
    }
    float total = sink == nullptr ? 0.0f : std::exp(*sink - largest);
    std::fill_n(y, attrs.dim_v, 0.0f);
    for (int64_t j = first; j <= position; ++j) {
      const float weight = std::exp(scores[static_cast<size_t>(j)] - largest);
      total += weight;
      for (int64_t i = 0; i < attrs.dim_v; ++i) y[i] += weight * v[j * v_stride + i];
    }
    for (int64_t i = 0; i < attrs.dim_v; ++i) y[i] /= total;
  }
};

std::vector<HostTensor> eval_kv_attention(const ir::Node& node, Inputs in, KvState& kv) {
  const auto& a = node.attrs.as<ir::KvAttentionAttrs>();
  const HostTensor& k = kv.k.at(a.slot);
  const HostTensor& v = kv.v.at(a.slot);
  const int64_t tokens = in[0]->shape[0];
  const int64_t before = k.shape[0] - tokens;  // positions of earlier calls
  if (before < 0 || k.shape[1] != a.kv_heads * a.dim_k || v.shape[1] != a.kv_heads * a.dim_v) {
    throw Error(Code::kInvalidArgument,
                fmt::format("slot {} holds k {} and v {}, not what kv_attention reads", a.slot,
                            to_string(k.shape), to_string(v.shape)));
  }
  const float* sinks = a.has_sinks ? in[2]->f32.data() : nullptr;
  const float* slopes = a.has_alibi ? in[a.has_sinks ? 3 : 2]->f32.data() : nullptr;
  HostTensor y = f32_tensor({tokens, a.heads * a.dim_v});
  std::vector<float> scores(static_cast<size_t>(k.shape[0]));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t kv_head = h / (a.heads / a.kv_heads);
      const Head head{a,
                      in[0]->f32.data() + (t * a.heads + h) * a.dim_k,
                      k.f32.data() + kv_head * a.dim_k,
                      v.f32.data() + kv_head * a.dim_v,
                      k.shape[1],
                      v.shape[1],
                      sinks == nullptr ? nullptr : sinks + h,
                      slopes == nullptr ? 0.0f : slopes[h]};
      head.run(before + t, scores, y.f32.data() + (t * a.heads + h) * a.dim_v);
    }
  }
  return {std::move(y)};
}

struct Entry {
  const ir::OpSchema* op;
  StateFn run;
};

constexpr Entry kStateEvals[] = {
    {&ir::ops::kKvAppend, eval_kv_append},
    {&ir::ops::kKvAttention, eval_kv_attention},
    {&ir::ops::kQkvRopeAppend, eval_qkv_rope_append},
};

}  // namespace

StateFn find_state_eval(const ir::OpSchema* op) {
  for (const Entry& entry : kStateEvals) {
    if (entry.op == op) return entry.run;
  }
  return nullptr;
}

}  // namespace kvern::eval
