#include "compile/passes/token_form/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "compile/passes/token_form/attention_reading.h"
#include "compile/passes/token_form/rotation_table.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;

// The turn whose angles the file computes in less than f32: no frequency gives these.
const Turn* rounded_turn(const Walk& walk, const std::vector<double>& frequencies) {
  for (const Turn& turn : walk.turns) {
    if (turn.angles != ir::ElementType::kFloat && turn.frequencies == frequencies) return &turn;
  }
  return nullptr;
}

// Of tables of all positions: 8192 of heads of 128. The graph of a plan spells them out.
constexpr int64_t kMostTableElements = int64_t{1} << 19;

ir::ValueId table_weight(Walk& walk, const std::string& name, Shape shape,
                         std::vector<double> values) {
  ir::RecipeNode node;
  node.op = ir::RecipeOp::kLiteral;
  node.values = std::move(values);
  walk.emit.graph.weights.push_back({name, shape, {{std::move(node)}}, {}});
  return walk.emit.graph.add1(ops::kWeight, {}, ir::Attrs::of(ir::WeightAttrs{name, shape}), name);
}

// Rows of a table of all positions, with every rounding of the file.
std::vector<ir::ValueId> rows_of_turn(Walk& walk, const Turn& turn, const std::string& name) {
  const int64_t positions = num_positions(walk);
  const auto half = static_cast<int64_t>(turn.frequencies.size());
  if (positions * half > kMostTableElements) {
    throw Error(
        Code::kUnsupported,
        fmt::format("onnx: the file computes the angles of its rotation in {}, so that the "
                    "plan would hold cos and sin of each of {} positions: too many. Export "
                    "with the rotary part in float32, or build with a --max-context-length "
                    "of at most {}",
                    ir::element_type_name(turn.angles), positions, kMostTableElements / half));
  }
  int64_t& learned = walk.out.learned_positions;
  learned = learned > 0 ? std::min(learned, positions) : positions;
  std::vector<ir::ValueId> out;
  for (const bool is_sin : {false, true}) {
    const std::string of = name + (is_sin ? ".sin" : ".cos");
    const ir::ValueId table = table_weight(walk, of + "_table", {positions, half},
                                           rounded_table(turn, positions, is_sin));
    out.push_back(walk.emit.add(ops::kEmbedding, {walk.emit.positions(), table}, of));
  }
  return out;
}

// cos and sin [tokens, half] of one set of frequencies.
std::pair<ir::ValueId, ir::ValueId> angles_of(Walk& walk, const std::vector<double>& frequencies) {
  const auto found = walk.angles.find(frequencies);
  if (found != walk.angles.end()) return found->second;
  const auto half = static_cast<int64_t>(frequencies.size());
  const std::string name = walk.angles.empty() ? "rope" : fmt::format("rope{}", walk.angles.size());
  if (const Turn* turn = rounded_turn(walk, frequencies)) {
    const std::vector<ir::ValueId> rows = rows_of_turn(walk, *turn, name);
    return walk.angles.emplace(frequencies, std::pair(rows[0], rows[1])).first->second;
  }
  const ir::ValueId by = walk.emit.literal(name + ".frequencies", {half}, frequencies);
  const std::vector<ir::ValueId> made =
      walk.emit.graph.add(ops::kRopeAngles, {walk.emit.positions(), by},
                          ops::kRopeAngles.default_attrs(), name + ".angles");
  return walk.angles.emplace(frequencies, std::pair(made[0], made[1])).first->second;
}

std::string angles_text(const Walk& walk, const std::vector<double>& frequencies) {
  const Turn* turn = rounded_turn(walk, frequencies);
  return turn == nullptr ? "" : fmt::format(" (angles in {})", ir::element_type_name(turn->angles));
}

ir::ValueId turned(Walk& walk, const AttentionReading& r, ir::ValueId x, int64_t heads,
                   const std::string& name) {
  if (r.rotary_dim == 0) return x;
  const auto [cos, sin] = angles_of(walk, r.frequencies);
  ir::RopeAttrs attrs{heads, r.dim_k, r.interleaved};
  return walk.emit.add(ops::kRope, {x, cos, sin}, ir::Attrs::of(attrs), name);
}

// The slot that holds these keys and values, written at its first use.
size_t slot_of(Walk& walk, const AttentionReading& r, const std::string& at) {
  for (size_t i = 0; i < walk.slots.size(); ++i) {
    const SlotState& s = walk.slots[i];
    if (s.k.fresh == r.k.fresh && s.v.fresh == r.v.fresh && s.frequencies == r.frequencies &&
        s.interleaved == r.interleaved && s.k.past == r.k.past && s.v.past == r.v.past) {
      return i;
    }
  }
  const auto kv_heads = static_cast<int64_t>(r.k.place.size());
  SlotState slot;
  slot.k = r.k;
  slot.v = r.v;
  slot.frequencies = r.frequencies;
  slot.interleaved = r.interleaved;
  slot.kv_heads = kv_heads;
  ir::ValueId k = walk.emit.value_of(walk.emit.pick(r.k.fresh, at + ".k"));
  const ir::ValueId v = walk.emit.value_of(walk.emit.pick(r.v.fresh, at + ".v"));
  k = turned(walk, r, k, kv_heads, at + ".k_rope");
  ir::KvAppendAttrs append;
  append.slot = static_cast<int64_t>(walk.slots.size());
  append.kv_heads = kv_heads;
  append.dim_k = r.dim_k;
  append.dim_v = r.dim_v;
  slot.kv = walk.emit.add(ops::kKvAppend, {k, v}, ir::Attrs::of(append), at + ".kv");
  walk.slots.push_back(std::move(slot));
  return walk.slots.size() - 1;
}

}  // namespace

ir::Array broadcast(const ir::Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  ir::TensorNode node;
  node.op = "Expand";
  node.opset = 13;
  const ir::Array target = ir::Array::vector_i64(shape);
  const ir::Array* inputs[] = {&array, &target};
  return eval::run_tensor_node(node, inputs).at(0);
}

void add_bias(Scores& scores, const std::vector<ir::Array>& bias) {
  std::vector<ir::Array> sum;
  for (size_t world = 0; world < bias.size(); ++world) {
    ir::Array more =
        ir::Array::of<float>(ir::ElementType::kFloat, bias[world].shape(), bias[world].to_f32());
    if (scores.bias.empty()) {
      sum.push_back(std::move(more));
      continue;
    }
    ir::TensorNode node;
    node.op = "Add";
    node.opset = 14;
    const ir::Array* inputs[] = {&scores.bias[world], &more};
    sum.push_back(eval::run_tensor_node(node, inputs).at(0));
  }
  scores.bias = std::move(sum);
}

Value make_scores(Walk& walk, const ir::TensorNode& node, const View& q, const View& k,
                  std::vector<Shape> shapes) {
  Base base;
  base.kind = Base::Kind::kProduct;
  base.origin = node.who();
  Scores scores;
  const int32_t id = walk.emit.add_base(base);
  for (size_t world = 0; world < walk.num_layout; ++world) {
    scores.elements.push_back(symbols_of_base(id, shapes[world]));
  }
  scores.product = std::make_shared<const Product>(Product{q.elements, k.elements, shapes});
  return scores_value(ir::ElementType::kFloat, std::move(shapes), std::move(scores));
}

Value attend(Walk& walk, const ir::TensorNode& node, const Value& probabilities, const View& v,
             ir::ElementType type, std::vector<Shape> shapes) {
  const Scores& scores = *probabilities.get<Scores>();
  const AttentionReading r = read_attention(walk, node, scores, v, probabilities.shapes);
  const auto layer = static_cast<int64_t>(walk.out.layers.size());
  const std::string at = fmt::format("layers.{}.attn", layer);
  const auto heads = static_cast<int64_t>(r.q_features.size());
  Features query;
  query.base = r.q_base;
  query.factor = {1.0f};
  for (const auto& features : r.q_features) {
    query.index.insert(query.index.end(), features.begin(), features.end());
  }
  ir::ValueId q = walk.emit.value_of(walk.emit.pick(query, at + ".q"));
  const size_t slots_before = walk.slots.size();
  const size_t slot = slot_of(walk, r, at);
  q = turned(walk, r, q, heads, at + ".q_rope");
  ir::KvAttentionAttrs attrs;
  attrs.slot = static_cast<int64_t>(slot);
  attrs.heads = heads;
  attrs.kv_heads = walk.slots[slot].kv_heads;
  attrs.dim_k = r.dim_k;
  attrs.dim_v = r.dim_v;
  attrs.scale = static_cast<float>(r.scale);
  attrs.softcap = static_cast<float>(scores.softcap);
  attrs.window = r.window;
  if (r.window > 0) attrs.mask = ir::MaskKind::kWindow;
  std::vector<ir::ValueId> inputs = {q, walk.slots[slot].kv};
  if (!r.sinks.empty()) {
    attrs.has_sinks = true;
    inputs.push_back(walk.emit.literal(at + ".sinks", {heads}, r.sinks));
  }
  if (!r.slopes.empty()) {
    attrs.has_alibi = true;
    inputs.push_back(walk.emit.literal(at + ".alibi", {heads}, r.slopes));
  }
  ir::ValueId y =
      walk.emit.graph.add(ops::kKvAttention, inputs, ir::Attrs::of(attrs), at + ".y", node.name)[0];
  if (std::abs(r.v_factor - 1) > 1e-6) {
    const ir::FactorAttrs by{static_cast<float>(r.v_factor)};
    y = walk.emit.add(ops::kScale, {y}, ir::Attrs::of(by), at + ".y_scaled");
  }
  const int32_t base = walk.emit.emitted(y, heads * r.dim_v, node.who());

  TokenLayer found;
  found.node = node.who();
  found.attention =
      node.op == "MatMul" ? "decomposed" : node.domain + (node.domain.empty() ? "" : ".") + node.op;
  found.slot = static_cast<int64_t>(slot);
  found.heads = heads;
  found.kv_heads = attrs.kv_heads;
  found.dim_k = r.dim_k;
  found.dim_v = r.dim_v;
  found.scale = r.scale;
  found.softcap = scores.softcap;
  found.mask = !r.slopes.empty() ? "alibi"
               : r.window > 0    ? fmt::format("window {}", r.window)
                                 : "causal";
  found.proven_length = r.longest;
  found.rope = r.rotary_dim == 0
                   ? "none"
                   : fmt::format("{} {} of {}{}{}", r.interleaved ? "pairs" : "halves",
                                 r.rotary_dim, r.dim_k, r.measured ? " (frequencies measured)" : "",
                                 angles_text(walk, r.frequencies));
  found.cache = slot < slots_before ? "shared" : r.k.past < 0 ? "introduced" : "recognised";
  walk.out.layers.push_back(std::move(found));

  std::vector<ir::Array> elements;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    ir::Array array(ir::ElementType::kSymbol, shapes[world]);
    const std::span<Symbol> to = array.mutable_as<Symbol>();
    size_t i = 0;
    for (const auto& [token, head] : r.rows[world]) {
      for (int64_t d = 0; d < r.dim_v; ++d) {
        to[i++] = element_of(base, (token * heads + head) * r.dim_v + d);
      }
    }
    elements.push_back(std::move(array));
  }
  return view_value(type, std::move(shapes), std::move(elements));
}

}  // namespace kvern::passes::token_form
