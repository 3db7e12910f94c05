#include "compile/import/families/llama.h"

#include <fmt/format.h>

#include <cmath>

#include "compile/ir/ops.h"

namespace kvern::import {
namespace {

namespace ops = ir::ops;
using ir::Attrs;
using ir::ValueId;

// What the layers share.
struct Llama {
  const LlamaConfig& config;
  WeightSet& weights;
  ir::Graph& graph;
  ValueId cos;  // [tokens, rotary_dim / 2]
  ValueId sin;
};

ValueId plain(Llama& m, const ir::OpSchema& op, std::vector<ValueId> inputs,
              const std::string& name) {
  return m.graph.add1(op, std::move(inputs), op.default_attrs(), name);
}

ValueId norm(Llama& m, ValueId x, const std::string& name) {
  const ValueId gamma = m.weights.take(name + ".weight", {m.config.hidden_size});
  return m.graph.add1(ops::kRmsNorm, {x, gamma}, Attrs::of(ir::NormAttrs{m.config.norm_eps}), name);
}

ValueId linear(Llama& m, ValueId x, int64_t n, int64_t k, const std::string& name) {
  std::vector<ValueId> inputs = {x, m.weights.take(name + ".weight", {n, k})};
  if (m.weights.has(name + ".bias")) inputs.push_back(m.weights.take(name + ".bias", {n}));
  return plain(m, ops::kLinear, std::move(inputs), name);
}

ValueId rope(Llama& m, ValueId x, int64_t heads, const std::string& name) {
  return m.graph.add1(ops::kRope, {x, m.cos, m.sin},
                      Attrs::of(ir::RopeAttrs{heads, m.config.head_dim, false}), name);
}

ValueId attention(Llama& m, ValueId x, int64_t layer, const std::string& at) {
  const LlamaConfig& c = m.config;
  const int64_t q_size = c.num_heads * c.head_dim;
  const int64_t kv_size = c.num_kv_heads * c.head_dim;
  const ValueId q = linear(m, x, q_size, c.hidden_size, at + ".q");
  const ValueId k = linear(m, x, kv_size, c.hidden_size, at + ".k");
  const ValueId v = linear(m, x, kv_size, c.hidden_size, at + ".v");
  const ValueId q_turned = rope(m, q, c.num_heads, at + ".q_rope");
  const ValueId k_turned = rope(m, k, c.num_kv_heads, at + ".k_rope");
  ir::KvAppendAttrs append;
  append.slot = layer;
  append.kv_heads = c.num_kv_heads;
  append.dim_k = append.dim_v = c.head_dim;
  const ValueId kv = m.graph.add1(ops::kKvAppend, {k_turned, v}, Attrs::of(append), at + ".kv");
  ir::KvAttentionAttrs attend;
  attend.slot = layer;
  attend.heads = c.num_heads;
  attend.kv_heads = c.num_kv_heads;
  attend.dim_k = attend.dim_v = c.head_dim;
  attend.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  const ValueId y = m.graph.add1(ops::kKvAttention, {q_turned, kv}, Attrs::of(attend), at + ".y");
  return linear(m, y, c.hidden_size, q_size, at + ".o");
}

ValueId mlp(Llama& m, ValueId x, const std::string& at) {
  const LlamaConfig& c = m.config;
  const ValueId gate = linear(m, x, c.ffn_size, c.hidden_size, at + ".gate");
  const ValueId up = linear(m, x, c.ffn_size, c.hidden_size, at + ".up");
  const ValueId opened = plain(m, ops::kSilu, {gate}, at + ".silu");
  const ValueId gated = plain(m, ops::kMul, {opened, up}, at + ".gated");
  return linear(m, gated, c.hidden_size, c.ffn_size, at + ".down");
}

ValueId layer(Llama& m, ValueId x, int64_t index) {
  const std::string at = fmt::format("layers.{}", index);
  const ValueId attended = attention(m, norm(m, x, at + ".attn_norm"), index, at + ".attn");
  x = plain(m, ops::kAdd, {x, attended}, at + ".attn_add");
  const ValueId passed = mlp(m, norm(m, x, at + ".mlp_norm"), at + ".mlp");
  return plain(m, ops::kAdd, {x, passed}, at + ".mlp_add");
}

ValueId input(ir::Graph& graph, const char* name) {
  ir::InputAttrs attrs;
  attrs.name = name;
  return graph.add1(ops::kInput, {}, Attrs::of(attrs), name);
}

}  // namespace

void build_llama(const LlamaConfig& config, WeightSet& weights, ir::Graph& graph) {
  graph.family = "llama";
  const ValueId ids = input(graph, "ids");
  const ValueId positions = input(graph, "positions");
  const ValueId frequencies = graph.add1(
      ops::kRopeFrequencies, {},
      Attrs::of(ir::RopeFrequencyAttrs{config.rope_base, config.rotary_dim}), "rope.frequencies");
  const std::vector<ValueId> angles = graph.add(ops::kRopeAngles, {positions, frequencies},
                                                ops::kRopeAngles.default_attrs(), "rope.angles");
  Llama m{config, weights, graph, angles.at(0), angles.at(1)};

  const Shape table_shape = {config.vocabulary_size, config.hidden_size};
  const ValueId table = weights.take("embed.weight", table_shape);
  ValueId x = plain(m, ops::kEmbedding, {ids, table}, "embed");
  for (int64_t i = 0; i < config.num_layers; ++i) x = layer(m, x, i);
  x = norm(m, x, "norm");
  const ValueId head =
      weights.has("head.weight") ? weights.take("head.weight", table_shape) : table;
  const ValueId logits = plain(m, ops::kLinear, {x, head}, "logits");
  graph.add(ops::kOutput, {logits}, Attrs::of(ir::OutputAttrs{"logits"}), "out");
}

std::vector<SlotInfo> llama_slots(const LlamaConfig& config) {
  std::vector<SlotInfo> slots;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    SlotInfo slot;
    slot.layers = {i};
    slot.kv_heads = static_cast<int32_t>(config.num_kv_heads);
    slot.dim_k = slot.dim_v = static_cast<int32_t>(config.head_dim);
    slot.position_scheme = "rope";
    slots.push_back(slot);
  }
  return slots;
}

}  // namespace kvern::import
