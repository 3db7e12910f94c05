#include "compile/import/families/decoder_parts.h"

#include <cmath>

#include "compile/ir/ops.h"

namespace kvern::import::decoder {

namespace ops = ir::ops;
using ir::Attrs;
using ir::ValueId;

namespace {

ValueId linear(Parts& p, ValueId x, int64_t n, int64_t k, const std::string& name) {
  std::vector<ValueId> inputs = {x, p.weights.take(name + ".weight", {n, k})};
  if (p.weights.has(name + ".bias")) inputs.push_back(p.weights.take(name + ".bias", {n}));
  return add(p, ops::kLinear, std::move(inputs), name);
}

// The norm of q or k: [tokens, heads * head_dim].
ValueId head_norm(Parts& p, ValueId x, int64_t heads, const std::string& name) {
  const DecoderConfig& c = p.config;
  if (c.qk_norm == QkNorm::kNone) return x;
  ir::NormAttrs attrs;
  attrs.eps = c.qk_norm_eps > 0 ? c.qk_norm_eps : c.norm_eps;
  attrs.heads = c.qk_norm == QkNorm::kPerHead ? heads : 1;
  const ValueId gamma = p.weights.take(name + ".weight", {heads * c.head_dim / attrs.heads});
  return p.graph.add1(ops::kRmsNorm, {x, gamma}, Attrs::of(attrs), name);
}

ValueId turned(Parts& p, ValueId x, int64_t heads, int rope, const std::string& name) {
  if (rope < 0) return x;
  const Angles& angles = p.angles[static_cast<size_t>(rope)];
  return p.graph.add1(ops::kRope, {x, angles.cos, angles.sin},
                      Attrs::of(ir::RopeAttrs{heads, p.config.head_dim, p.config.rope_interleaved}),
                      name);
}

const ir::OpSchema& activation_op(Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return ops::kGeluTanh;
    case Activation::kGeluErf:
      return ops::kGeluErf;
    default:
      return ops::kSilu;
  }
}

const char* activation_name(Activation activation) {
  return activation == Activation::kSilu ? ".silu" : ".gelu";
}

ir::KvAttentionAttrs attention_attrs(const DecoderConfig& c, int64_t index) {
  const DecoderLayer layer = layer_of(c, index);
  ir::KvAttentionAttrs attrs;
  attrs.slot = index;
  attrs.heads = c.num_heads;
  attrs.kv_heads = c.num_kv_heads;
  attrs.dim_k = attrs.dim_v = c.head_dim;
  const double otherwise = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  attrs.scale = c.attention_scale > 0 ? c.attention_scale : static_cast<float>(otherwise);
  attrs.softcap = c.attention_softcap;
  attrs.window = layer.window;
  if (layer.window > 0) attrs.mask = ir::MaskKind::kWindow;
  return attrs;
}

}  // namespace

ValueId add(Parts& p, const ir::OpSchema& op, std::vector<ValueId> inputs,
            const std::string& name) {
  return p.graph.add1(op, std::move(inputs), op.default_attrs(), name);
}

DecoderLayer layer_of(const DecoderConfig& config, int64_t index) {
  if (!config.layers.empty()) return config.layers[static_cast<size_t>(index)];
  DecoderLayer layer;
  if (config.ropes.empty()) layer.rope = -1;
  return layer;
}

ValueId norm(Parts& p, ValueId x, const std::string& name) {
  const DecoderConfig& c = p.config;
  std::vector<ValueId> inputs = {x, p.weights.take(name + ".weight", {c.hidden_size})};
  ir::NormAttrs attrs;
  attrs.eps = c.norm_eps;
  if (c.norm == NormKind::kRms) {
    return p.graph.add1(ops::kRmsNorm, std::move(inputs), Attrs::of(attrs), name);
  }
  if (p.weights.has(name + ".bias")) {
    inputs.push_back(p.weights.take(name + ".bias", {c.hidden_size}));
  }
  return p.graph.add1(ops::kLayerNorm, std::move(inputs), Attrs::of(attrs), name);
}

ValueId attention(Parts& p, ValueId x, int64_t layer, const std::string& at) {
  const DecoderConfig& c = p.config;
  const int64_t q_size = c.num_heads * c.head_dim;
  const int64_t kv_size = c.num_kv_heads * c.head_dim;
  ValueId q = linear(p, x, q_size, c.hidden_size, at + ".q");
  ValueId k = linear(p, x, kv_size, c.hidden_size, at + ".k");
  const ValueId v = linear(p, x, kv_size, c.hidden_size, at + ".v");
  q = head_norm(p, q, c.num_heads, at + ".q_norm");
  k = head_norm(p, k, c.num_kv_heads, at + ".k_norm");
  const int rope = layer_of(c, layer).rope;
  q = turned(p, q, c.num_heads, rope, at + ".q_rope");
  k = turned(p, k, c.num_kv_heads, rope, at + ".k_rope");
  ir::KvAppendAttrs append;
  append.slot = layer;
  append.kv_heads = c.num_kv_heads;
  append.dim_k = append.dim_v = c.head_dim;
  const ValueId kv = p.graph.add1(ops::kKvAppend, {k, v}, Attrs::of(append), at + ".kv");
  const ValueId y =
      p.graph.add1(ops::kKvAttention, {q, kv}, Attrs::of(attention_attrs(c, layer)), at + ".y");
  return linear(p, y, c.hidden_size, q_size, at + ".o");
}

ValueId mlp(Parts& p, ValueId x, const std::string& at) {
  const DecoderConfig& c = p.config;
  const ir::OpSchema& op = activation_op(c.activation);
  const std::string opened = at + activation_name(c.activation);
  ValueId y;
  if (c.gated_mlp) {
    const ValueId gate = linear(p, x, c.ffn_size, c.hidden_size, at + ".gate");
    const ValueId up = linear(p, x, c.ffn_size, c.hidden_size, at + ".up");
    y = add(p, ops::kMul, {add(p, op, {gate}, opened), up}, at + ".gated");
  } else {
    y = add(p, op, {linear(p, x, c.ffn_size, c.hidden_size, at + ".up")}, opened);
  }
  return linear(p, y, c.hidden_size, c.ffn_size, at + ".down");
}

Angles rope_angles(Parts& p, const RopeConfig& rope, ValueId positions, const std::string& name) {
  ir::RopeFrequencyAttrs attrs;
  attrs.base = rope.base;
  attrs.rotary_dim = rope.rotary_dim;
  attrs.factor = rope.factor;
  if (rope.scaling == RopeScaling::kLinear) attrs.scaling = ir::FrequencyScaling::kLinear;
  if (rope.scaling == RopeScaling::kLlama3) {
    attrs.scaling = ir::FrequencyScaling::kLlama3;
    attrs.low = rope.low_freq_factor;
    attrs.high = rope.high_freq_factor;
    attrs.original = rope.original_context_length;
  }
  std::vector<ValueId> divisors;
  if (!rope.factors.empty()) divisors.push_back(p.weights.literal(name + ".factors", rope.factors));
  const ValueId frequencies = p.graph.add1(ops::kRopeFrequencies, std::move(divisors),
                                           Attrs::of(attrs), name + ".frequencies");
  const std::vector<ValueId> angles =
      p.graph.add(ops::kRopeAngles, {positions, frequencies}, ops::kRopeAngles.default_attrs(),
                  name + ".angles");
  const auto scaled = [&](ValueId value, const char* part) {
    if (rope.attention_factor == 1.0) return value;
    const ir::FactorAttrs by{static_cast<float>(rope.attention_factor)};
    return p.graph.add1(ops::kScale, {value}, Attrs::of(by), name + part);
  };
  return {scaled(angles.at(0), ".cos_scaled"), scaled(angles.at(1), ".sin_scaled")};
}

}  // namespace kvern::import::decoder
