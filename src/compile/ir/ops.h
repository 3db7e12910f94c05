// The ops of token form, their attributes and their schemas. x: [tokens, …]; weights: [rows, cols].
#pragma once

#include "base/fields.h"
#include "compile/ir/op.h"

namespace kvern::ir {

struct NoAttrs {
  static constexpr auto fields() { return std::tuple{}; }
};

// input {name, dtype, width} -> [tokens] (width 0) or [tokens, width]. Names of the step's own
// inputs: "ids", "positions" (absolute), "wanted" (rows whose logits are asked for; [wanted] i32).
struct InputAttrs {
  std::string name;
  DType dtype = DType::kI32;
  int64_t width = 0;
  std::string rows = "tokens";
  static constexpr auto fields() {
    return std::tuple{field(1, "name", &InputAttrs::name), field(2, "dtype", &InputAttrs::dtype),
                      field(3, "width", &InputAttrs::width), field(4, "rows", &InputAttrs::rows)};
  }
};

// weight {name, shape} -> f32[shape]: the value of Graph::weights' entry of that name.
struct WeightAttrs {
  std::string name;
  std::vector<int64_t> shape;
  static constexpr auto fields() {
    return std::tuple{field(1, "name", &WeightAttrs::name), field(2, "shape", &WeightAttrs::shape)};
  }
};

// output(x) {name}: "logits".
struct OutputAttrs {
  std::string name;
  static constexpr auto fields() { return std::tuple{field(1, "name", &OutputAttrs::name)}; }
};

// rms_norm(x, gamma) -> y;   y[t,:] = x[t,:] / sqrt(mean(x[t,:]^2) + eps) * gamma
// With heads > 1 each of a row's heads is normed alone, by one gamma as wide as a head.
// add_rms_norm(x, residual, gamma) -> (sum, y): sum = x + residual, y = rms_norm(sum, gamma).
// layer_norm(x, gamma [, beta]) -> y;   y[t,:] = (x[t,:] - mean) / sqrt(var + eps) * gamma + beta
struct NormAttrs {
  float eps = 1e-5f;
  int64_t heads = 1;  // rms_norm only
  static constexpr auto fields() {
    return std::tuple{field(1, "eps", &NormAttrs::eps), field(2, "heads", &NormAttrs::heads)};
  }
};

// scale(x) {factor}: x * factor.   softcap(x) {factor}: factor * tanh(x / factor).
struct FactorAttrs {
  float factor = 1.0f;
  static constexpr auto fields() { return std::tuple{field(1, "factor", &FactorAttrs::factor)}; }
};

// split(x) {sizes} -> one value per size, along the last dim.
struct SplitAttrs {
  std::vector<int64_t> sizes;
  static constexpr auto fields() { return std::tuple{field(1, "sizes", &SplitAttrs::sizes)}; }
};

// kLlama3: frequencies whose wavelength exceeds original / low are divided by factor, those below
// original / high stay, those between are blended (Llama 3.1).
enum class FrequencyScaling : uint8_t { kNone = 0, kLinear = 1, kLlama3 = 2 };

// map(x0 [, x1 …]) {program} -> y: an elementwise program (tensor/map_program.h) over rows that may
// be narrower than y. y is as wide as the widest input, which each width must divide. Of rows
// [tokens, w] element j of y reads x[t, j / (width / w)]: one value per row or head. Of vectors [w]
// it reads v[j % w]: one for all, for all heads, or for each column.
struct MapAttrs {
  std::string program;  // "x0 x1 mul 0.5 add tanh"
  static constexpr auto fields() { return std::tuple{field(1, "program", &MapAttrs::program)}; }
};

// select(x) {runs} -> y: y[t,i] = x[t, indices[i]], the indices in runs of {start, count, stride}.
struct SelectAttrs {
  std::vector<int64_t> runs;
  static constexpr auto fields() { return std::tuple{field(1, "runs", &SelectAttrs::runs)}; }
};

// The runs of a list of indices, as few as are found from the left.
std::vector<int64_t> select_runs(const std::vector<int64_t>& indices);

enum class ReduceKind : uint8_t { kSum = 0, kMean = 1, kMeanSquare = 2, kMax = 3, kMin = 4 };

// row_reduce(x) {kind, groups} -> [tokens, groups]: of each of a row's equal stretches.
struct RowReduceAttrs {
  ReduceKind kind = ReduceKind::kSum;
  int64_t groups = 1;
  static constexpr auto fields() {
    return std::tuple{field(1, "kind", &RowReduceAttrs::kind),
                      field(2, "groups", &RowReduceAttrs::groups)};
  }
};

// rope_frequencies([divisors]) {base, rotary_dim, …} -> f32[rotary_dim / 2]:
// base^(-2i / rotary_dim), scaled, over divisors [rotary_dim / 2] where they are given.
struct RopeFrequencyAttrs {
  double base = 10000.0;
  int64_t rotary_dim = 0;
  FrequencyScaling scaling = FrequencyScaling::kNone;
  double factor = 1.0;
  double low = 1.0;
  double high = 4.0;
  int64_t original = 0;  // context length
  static constexpr auto fields() {
    return std::tuple{field(1, "base", &RopeFrequencyAttrs::base),
                      field(2, "rotary_dim", &RopeFrequencyAttrs::rotary_dim),
                      field(3, "scaling", &RopeFrequencyAttrs::scaling),
                      field(4, "factor", &RopeFrequencyAttrs::factor),
                      field(5, "low", &RopeFrequencyAttrs::low),
                      field(6, "high", &RopeFrequencyAttrs::high),
                      field(7, "original", &RopeFrequencyAttrs::original)};
  }
};

// rope_angles(positions, frequencies) -> (cos, sin), each f32[tokens, rotary_dim / 2].
// rope(x, cos, sin) {heads, head_dim, interleaved}: x [tokens, heads * head_dim]; the first
// 2 * cos-width elements of each head turn, in halves or, interleaved, in neighbouring pairs.
struct RopeAttrs {
  int64_t heads = 0;
  int64_t head_dim = 0;
  bool interleaved = false;
  static constexpr auto fields() {
    return std::tuple{field(1, "heads", &RopeAttrs::heads),
                      field(2, "head_dim", &RopeAttrs::head_dim),
                      field(3, "interleaved", &RopeAttrs::interleaved)};
  }
};

// kv_append(k, v) {slot, kv_heads, dim_k, dim_v} -> !kv: this step's tokens join the slot.
struct KvAppendAttrs {
  int64_t slot = 0;
  int64_t kv_heads = 0;
  int64_t dim_k = 0;
  int64_t dim_v = 0;
  static constexpr auto fields() {
    return std::tuple{
        field(1, "slot", &KvAppendAttrs::slot), field(2, "kv_heads", &KvAppendAttrs::kv_heads),
        field(3, "dim_k", &KvAppendAttrs::dim_k), field(4, "dim_v", &KvAppendAttrs::dim_v)};
  }
};

enum class MaskKind : uint8_t { kCausal = 0, kWindow = 1, kChunk = 2, kExplicit = 3 };

// kv_attention(q, kv [, sinks] [, alibi]) -> y [tokens, heads * dim_v];  softmax(scale * q k^T) v
// over the positions that the mask lets a token see. softcap 0 = none. sinks, alibi: f32[heads];
// alibi[h] * (p - t) joins the score of position p for the token at t, after the cap; a sink joins
// the denominator as exp(sinks[h]).
struct KvAttentionAttrs {
  int64_t slot = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t dim_k = 0;
  int64_t dim_v = 0;
  float scale = 1.0f;
  MaskKind mask = MaskKind::kCausal;
  int64_t window = 0;
  float softcap = 0.0f;
  bool has_sinks = false;
  bool has_alibi = false;
  static constexpr auto fields() {
    return std::tuple{field(1, "slot", &KvAttentionAttrs::slot),
                      field(2, "heads", &KvAttentionAttrs::heads),
                      field(3, "kv_heads", &KvAttentionAttrs::kv_heads),
                      field(4, "dim_k", &KvAttentionAttrs::dim_k),
                      field(5, "dim_v", &KvAttentionAttrs::dim_v),
                      field(6, "scale", &KvAttentionAttrs::scale),
                      field(7, "mask", &KvAttentionAttrs::mask),
                      field(8, "window", &KvAttentionAttrs::window),
                      field(9, "softcap", &KvAttentionAttrs::softcap),
                      field(10, "has_sinks", &KvAttentionAttrs::has_sinks),
                      field(11, "has_alibi", &KvAttentionAttrs::has_alibi)};
  }
};

// qkv_rope_append(q, k, v, cos, sin) -> (q_turned, !kv): rope on q and k, then kv_append. The
// fusion takes the three outputs of the split of one QKV GEMM; lowering reads them in place.
struct QkvRopeAppendAttrs {
  int64_t slot = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool interleaved = false;
  static constexpr auto fields() {
    return std::tuple{field(1, "slot", &QkvRopeAppendAttrs::slot),
                      field(2, "heads", &QkvRopeAppendAttrs::heads),
                      field(3, "kv_heads", &QkvRopeAppendAttrs::kv_heads),
                      field(4, "head_dim", &QkvRopeAppendAttrs::head_dim),
                      field(5, "interleaved", &QkvRopeAppendAttrs::interleaved)};
  }
};

namespace ops {

extern const OpSchema kInput;
extern const OpSchema kWeight;
extern const OpSchema kOutput;
extern const OpSchema kEmbedding;  // (ids [rows], table [vocab, dim]) -> [rows, dim]
extern const OpSchema kRmsNorm;
extern const OpSchema kAddRmsNorm;
extern const OpSchema kLayerNorm;
extern const OpSchema kLinear;  // (x [rows, k], w [n, k] [, bias [n]]) -> [rows, n] = x w^T
extern const OpSchema kSplit;
extern const OpSchema kAdd;  // elementwise, equal shapes
extern const OpSchema kMul;
extern const OpSchema kSilu;      // x * sigmoid(x)
extern const OpSchema kSiluMul;   // (gate, up) -> silu(gate) * up
extern const OpSchema kGeluTanh;  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
extern const OpSchema kGeluTanhMul;
extern const OpSchema kGeluErf;  // x / 2 * (1 + erf(x / sqrt(2)))
extern const OpSchema kGeluErfMul;
extern const OpSchema kRelu;       // max(x, 0)
extern const OpSchema kQuickGelu;  // x * sigmoid(1.702 x)
extern const OpSchema kTanh;
extern const OpSchema kSigmoid;
extern const OpSchema kScale;
extern const OpSchema kSoftcap;
extern const OpSchema kMap;
extern const OpSchema kSelect;
extern const OpSchema kRowReduce;
extern const OpSchema kRopeFrequencies;
extern const OpSchema kRopeAngles;
extern const OpSchema kRope;
extern const OpSchema kKvAppend;
extern const OpSchema kKvAttention;
extern const OpSchema kQkvRopeAppend;
extern const OpSchema kGatherRows;  // (x [tokens, d], rows [wanted] i32) -> [wanted, d]

}  // namespace ops
}  // namespace kvern::ir
