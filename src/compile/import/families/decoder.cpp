#include "compile/import/families/decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "compile/import/families/decoder_parts.h"
#include "compile/ir/ops.h"

namespace kvern::import {

using decoder::add;
using decoder::Parts;
using ir::Attrs;
using ir::ValueId;
namespace ops = ir::ops;

namespace {

ValueId input(ir::Graph& graph, const char* name) {
  ir::InputAttrs attrs;
  attrs.name = name;
  return graph.add1(ops::kInput, {}, Attrs::of(attrs), name);
}

ValueId scaled(Parts& p, ValueId x, float factor, const std::string& name) {
  if (factor == 1.0f) return x;
  return p.graph.add1(ops::kScale, {x}, Attrs::of(ir::FactorAttrs{factor}), name);
}

// What the block `block`, "attn" or "mlp", adds to x.
ValueId block(Parts& p, ValueId x, int64_t layer, const std::string& at, const char* name) {
  const DecoderConfig& c = p.config;
  const std::string base = fmt::format("{}.{}", at, name);
  if (c.norm_places != NormPlaces::kPost) x = decoder::norm(p, x, base + "_norm");
  const bool attends = std::string_view(name) == "attn";
  ValueId y = attends ? decoder::attention(p, x, layer, base) : decoder::mlp(p, x, base);
  if (c.norm_places != NormPlaces::kPre) y = decoder::norm(p, y, base + "_post_norm");
  return scaled(p, y, c.residual_multiplier, base + "_scaled");
}

ValueId layer(Parts& p, ValueId x, int64_t index) {
  const std::string at = fmt::format("layers.{}", index);
  if (p.config.parallel_residual) {
    const ValueId attended = block(p, x, index, at, "attn");
    const ValueId passed = block(p, x, index, at, "mlp");
    const ValueId both = add(p, ops::kAdd, {attended, passed}, at + ".both");
    return add(p, ops::kAdd, {x, both}, at + ".add");
  }
  x = add(p, ops::kAdd, {x, block(p, x, index, at, "attn")}, at + ".attn_add");
  return add(p, ops::kAdd, {x, block(p, x, index, at, "mlp")}, at + ".mlp_add");
}

ValueId embed(Parts& p, ValueId ids, ValueId positions, ValueId table) {
  const DecoderConfig& c = p.config;
  ValueId x = add(p, ops::kEmbedding, {ids, table}, "embed");
  x = scaled(p, x, c.embedding_multiplier, "embed.scaled");
  if (c.learned_positions == 0) return x;
  const ValueId rows = p.weights.take("positions.weight", {c.learned_positions, c.hidden_size});
  const ValueId places = add(p, ops::kEmbedding, {positions, rows}, "positions.embed");
  return add(p, ops::kAdd, {x, places}, "embed.placed");
}

ValueId logits_of(Parts& p, ValueId x, ValueId table) {
  const DecoderConfig& c = p.config;
  std::vector<ValueId> inputs = {x, table};
  if (p.weights.has("head.weight")) {
    inputs[1] = p.weights.take("head.weight", {c.vocabulary_size, c.hidden_size});
  }
  if (p.weights.has("head.bias")) {
    inputs.push_back(p.weights.take("head.bias", {c.vocabulary_size}));
  }
  ValueId logits = add(p, ops::kLinear, std::move(inputs), "logits");
  logits = scaled(p, logits, c.logits_multiplier, "logits.scaled");
  if (c.final_softcap == 0.0f) return logits;
  return p.graph.add1(ops::kSoftcap, {logits}, Attrs::of(ir::FactorAttrs{c.final_softcap}),
                      "logits.capped");
}

// A family's reader that leaves these in disagreement is at fault, not the file.
void check(const DecoderConfig& c) {
  KVERN_CHECK(c.layers.empty() || static_cast<int64_t>(c.layers.size()) == c.num_layers,
              "{}: {} layers are described, there are {}", c.family, c.layers.size(), c.num_layers);
  KVERN_CHECK(!c.parallel_residual || c.norm_places == NormPlaces::kPre,
              "{}: parallel blocks are normed before", c.family);
  for (const DecoderLayer& layer : c.layers) {
    KVERN_CHECK(layer.window >= 0 && layer.rope < static_cast<int>(c.ropes.size()),
                "{}: window {}, rope {} of {}", c.family, layer.window, layer.rope, c.ropes.size());
  }
}

// A rope whose frequencies f32 does not hold turns nothing by anything.
void check_rope(const RopeConfig& rope) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(Code::kInvalidModel,
                fmt::format("rope: base (rope_theta) {}, scaling factor {}: {}", rope.base,
                            rope.factor, problem));
  };
  if (!(rope.attention_factor > 1e-6 && rope.attention_factor < 1e6)) {
    refuse(fmt::format("attention would be scaled by {}", rope.attention_factor));
  }
  for (int64_t i = 0; i < rope.rotary_dim / 2; ++i) {
    const double by = rope.factors.empty() ? 1.0 : rope.factors[static_cast<size_t>(i)];
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim);
    const double frequency = std::pow(rope.base, exponent) / by;
    const double scaled = frequency / (rope.scaling == RopeScaling::kNone ? 1.0 : rope.factor);
    if (frequency < 1e30 && scaled < 1e30) continue;
    refuse(fmt::format("frequency {} (divided by {}) is {}, beyond any use", i, by, scaled));
  }
}

}  // namespace

void build_decoder(const DecoderConfig& config, WeightSet& weights, ir::Graph& graph) {
  check(config);
  for (const RopeConfig& rope : config.ropes) check_rope(rope);
  graph.family = config.family;
  Parts p{config, weights, graph, {}};
  const ValueId ids = input(graph, "ids");
  const ValueId positions = input(graph, "positions");
  for (size_t i = 0; i < config.ropes.size(); ++i) {
    const std::string name = config.ropes.size() == 1 ? "rope" : fmt::format("rope.{}", i);
    p.angles.push_back(decoder::rope_angles(p, config.ropes[i], positions, name));
  }
  const ValueId table = weights.take("embed.weight", {config.vocabulary_size, config.hidden_size});
  ValueId x = embed(p, ids, positions, table);
  for (int64_t i = 0; i < config.num_layers; ++i) x = layer(p, x, i);
  x = decoder::norm(p, x, "norm");
  const ValueId logits = logits_of(p, x, table);
  graph.add(ops::kOutput, {logits}, Attrs::of(ir::OutputAttrs{"logits"}), "out");
}

std::vector<SlotInfo> decoder_slots(const DecoderConfig& config) {
  std::vector<SlotInfo> slots;
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const DecoderLayer layer = decoder::layer_of(config, i);
    SlotInfo slot;
    slot.layers = {i};
    slot.kv_heads = static_cast<int32_t>(config.num_kv_heads);
    slot.dim_k = slot.dim_v = static_cast<int32_t>(config.head_dim);
    slot.window_tokens = static_cast<int32_t>(layer.window);
    slot.position_scheme = layer.rope < 0 ? "none" : "rope";
    slots.push_back(slot);
  }
  return slots;
}

void finish_decoder(const DecoderConfig& config, WeightSet& weights, ImportedModel& model) {
  build_decoder(config, weights, model.graph);
  model.slots = decoder_slots(config);
  model.vocabulary_size = config.vocabulary_size;
  model.num_layers = config.num_layers;
  model.hidden_size = config.hidden_size;
  model.max_context_length = config.max_context_length;
}

}  // namespace kvern::import
