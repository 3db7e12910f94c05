// What all attention ops share: softmax(scale * q k^T, capped, + bias) v over dense f32 heads.
#pragma once

#include <functional>
#include <span>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

// Scores of one row of one head: adds to them, or sets keys that are not seen to -inf.
using BiasFn = std::function<void(int64_t batch, int64_t head, int64_t row, std::span<float>)>;

// How far the scores are computed when they are wanted as an output.
enum class ScoreStage { kRaw, kCapped, kBiased, kSoftmax };

struct AttentionJob {
  Array q;  // [batch, heads, rows, dim_k]
  Array k;  // [batch, kv_heads, keys, dim_k]; a KV head serves heads / kv_heads heads in a row
  Array v;  // [batch, kv_heads, keys, dim_v]
  float scale = 1;
  float softcap = 0;  // 0: none
  BiasFn bias;
  // A logit per head that takes its share of the softmax and gives nothing; empty: none.
  std::vector<float> sinks;
  Array* scores = nullptr;  // receives [batch, heads, rows, keys] at `stage`
  ScoreStage stage = ScoreStage::kRaw;
};

// [batch, heads, rows, dim_v]. A row that sees no key gives zeros (as ONNX 1.23 says; 1.22 gave
// NaN). Throws naming the node when the shapes of q, k and v do not fit.
Array run_attention(const OpCall& call, const AttentionJob& job);

// The mask of an attention op, as bias: bools are 0 and -inf, numbers are themselves.
class MaskBias {
 public:
  MaskBias() = default;
  // `mask` broadcasts, right-aligned, to [batch, heads, rows, keys]. With `short_keys` its last
  // dim may be shorter than keys: the rest is not seen. Throws naming the node.
  MaskBias(const OpCall& call, const Array& mask, const Shape& scores, bool short_keys);
  void add(int64_t batch, int64_t head, int64_t row, std::span<float> scores) const;

 private:
  Array bias_;
  Shape strides_;          // of [batch, heads, rows], in elements
  int64_t seen_ = -1;      // keys that the mask has; -1: no mask
  bool repeated_ = false;  // one value for all keys
};

// [batch, rows, heads * dim] as [batch, heads, rows, dim], and back. Elements of any type.
Array heads_first(const OpCall& call, const Array& array, int64_t heads);
Array heads_last(const Array& array);
// Rows of both joined along axis 2: [batch, heads, past + rows, dim].
Array append_rows(const OpCall& call, const Array& past, const Array& rows);

}  // namespace kvern::eval
