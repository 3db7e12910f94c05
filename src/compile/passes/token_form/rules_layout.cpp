// Ops that move elements: they run on symbols as they are.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compile/ir/ops.h"
#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/mask.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/quant_weight.h"
#include "compile/passes/token_form/rules.h"
#include "compile/passes/token_form/sinks.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;

const Value* scores_among(const RuleCall& call) {
  for (const Value* input : call.inputs) {
    if (input != nullptr && input->get<Scores>() != nullptr) return input;
  }
  return nullptr;
}

// The rows of an array of scores: in each, which elements of the product.
std::vector<std::vector<int32_t>> columns_of(const ir::Array& scores) {
  std::vector<std::vector<int32_t>> out;
  const int64_t keys = scores.shape().empty() ? 1 : scores.shape().back();
  for (int64_t at = 0; at < scores.count(); at += keys) {
    std::vector<int32_t>& row = out.emplace_back();
    for (int64_t i = 0; i < keys; ++i) {
      row.push_back(symbols(scores)[static_cast<size_t>(at + i)].index[0]);
    }
    std::sort(row.begin(), row.end());
  }
  return out;
}

// After softmax every column has a share of its row: rows may move, but only whole ones.
bool moves_whole_rows(const Scores& before, const Scores& after, const std::vector<Shape>& from,
                      const std::vector<Shape>& to) {
  for (size_t world = 0; world < from.size(); ++world) {
    if (from[world].empty() || to[world].empty() || from[world].back() != to[world].back()) {
      return false;
    }
  }
  for (size_t world = 0; world < before.elements.size(); ++world) {
    const auto rows = columns_of(before.elements[world]);
    const std::set<std::vector<int32_t>> known_rows(rows.begin(), rows.end());
    for (const auto& row : columns_of(after.elements[world])) {
      if (!known_rows.contains(row)) return false;
    }
  }
  return true;
}

// A move of scores moves what was added to them too.
Values move_scores(const RuleCall& call, const Value& from, Values out) {
  const Scores& scores = *from.get<Scores>();
  if (std::optional<Value> joined = join_sinks(call)) return {std::move(*joined)};
  if (std::optional<Value> dropped = drop_sinks(call)) return {std::move(*dropped)};
  if (scores.sink_column || scores.row_max) {
    return {opaque(call, "it moves attention scores and their sinks")};
  }
  if (call.node.op == "Concat" || call.node.outputs.size() != 1) {
    return {opaque(call, "it joins or splits attention scores")};
  }
  Scores moved = scores;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    moved.elements[world] = run_layout(call, world).at(0);
  }
  if (!scores.bias.empty()) {
    for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
      const ir::Array full = broadcast(scores.bias[world], call.in(0).shapes[world]);
      std::vector<const ir::Array*> arrays = {&full};
      for (size_t i = 1; i < call.inputs.size(); ++i) {
        arrays.push_back(call.has(i) ? &call.in(i).known()->at(world) : nullptr);
      }
      moved.bias[world] = eval::run_tensor_node(call.node, arrays).at(0);
    }
  }
  if (scores.normalised && !moves_whole_rows(scores, moved, from.shapes, out[0].shapes)) {
    return {opaque(call, "it drops or mixes columns of probabilities, whose shares are lost")};
  }
  return {scores_value(out[0].type, out[0].shapes, std::move(moved))};
}

Values moved(const RuleCall& call) {
  Values out = inferred(call);
  if (const Value* scores = scores_among(call)) return move_scores(call, *scores, std::move(out));
  std::vector<std::vector<ir::Array>> elements(out.size());
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    std::vector<ir::Array> results = run_layout(call, world);
    for (size_t o = 0; o < out.size(); ++o) elements[o].push_back(std::move(results.at(o)));
  }
  for (size_t o = 0; o < out.size(); ++o) {
    out[o] = view_value(out[o].type, out[o].shapes, std::move(elements[o]));
  }
  return out;
}

}  // namespace

Values rule_layout(const RuleCall& call) {
  for (Value* input : call.inputs) {
    if (input == nullptr || input->known() != nullptr || input->get<Scores>() != nullptr) continue;
    std::string why;
    if (as_view(call.walk, *input, &why) == nullptr) {
      return Values(call.node.outputs.size(), opaque(call, why));
    }
  }
  return moved(call);
}

Values rule_same(const RuleCall& call) {
  Value out = call.in(0);
  if (call.node.op == "Cast") {
    const auto to = static_cast<ir::ElementType>(call.node.i("to", 0));
    const bool to_int = !ir::is_float(to);
    const bool from_int = !ir::is_float(out.type);
    // 0 or 1, as it is; of scores it would pass for them.
    const bool is_truth =
        out.type == ir::ElementType::kBool && !to_int && out.get<Scores>() == nullptr;
    if (to_int != from_int && !is_truth) {
      return {opaque(call,
                     "it turns activations into integers or back, as models do that choose by "
                     "them: not supported")};
    }
    out.type = to;
  }
  Values all = {std::move(out)};
  while (all.size() < call.node.outputs.size()) all.push_back(opaque(call, "a mask of dropout"));
  return all;
}

Value make_embedding(const RuleCall& call, Value& index, std::shared_ptr<const Provenance> table,
                     ir::ElementType type, std::vector<Shape> shapes) {
  Walk& walk = call.walk;
  std::string why;
  const auto ids = as_view(walk, index, &why);
  if (ids == nullptr) return opaque(call, why);
  const std::optional<TokenSet> set = tokens_of(walk, *ids, &why);
  if (!set || set->features.index.size() != 1 || set->features.factor[0] != 1 ||
      walk.emit.bases[static_cast<size_t>(set->features.base)].kind != Base::Kind::kIds) {
    return opaque(call, "its indices are not the ids of tokens, one each");
  }
  const bool first = walk.out.vocabulary_size == 0;
  const std::string name = first ? "embed" : "embedding";
  const ir::ValueId y = walk.emit.graph.add(
      ops::kEmbedding, {walk.emit.ids(), walk.emit.weight(*table, {}, name + ".weight")},
      ops::kEmbedding.default_attrs(), name, call.node.name)[0];
  const int64_t width = table->shape[1];
  // A later one, of each layer's own inputs say, may have fewer rows: ids must fit all.
  walk.out.vocabulary_size =
      first ? table->shape[0] : std::min(walk.out.vocabulary_size, table->shape[0]);
  if (first) walk.out.hidden_size = width;
  const int32_t base = walk.emit.emitted(y, width, call.node.who());
  std::vector<ir::Array> elements;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    ir::Array array(ir::ElementType::kSymbol, shapes[world]);
    int64_t i = 0;
    for (Symbol& s : array.mutable_as<Symbol>()) {
      s = element_of(base, set->place[world][static_cast<size_t>(i / width)] * width + i % width);
      ++i;
    }
    elements.push_back(std::move(array));
  }
  return view_value(type, std::move(shapes), std::move(elements));
}

Values rule_gather(const RuleCall& call) {
  Value& table = call.in(0);
  Value& index = call.in(1);
  if (table.known() == nullptr && index.known() != nullptr) return rule_layout(call);
  if (table.known() == nullptr || table.shapes[0].size() != 2 || call.node.i("axis", 0) != 0) {
    return {opaque(call, "it chooses elements by ids, which only an embedding may")};
  }
  auto from = provenance_of(table);
  if (from == nullptr) return {opaque(call, "its table is not one constant")};
  if (!ir::is_float(table.type)) from = plain_codes(*from, ir::Array::scalar_f32(0));
  if (from == nullptr) return {opaque(call, "its table holds integers of more than 8 bits")};
  return {make_embedding(call, index, from, table.type, inferred(call)[0].shapes)};
}

// Whether both sides are taken in every world: as a write into a cache does. What is mixed at far
// positions alone would not be seen among the elements of the small worlds.
bool chooses_alike(const RuleCall& call, Value& condition) {
  int before = -1;
  for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
    const std::span<const uint8_t> chosen = condition.known()->at(world).as<uint8_t>();
    const bool any = std::any_of(chosen.begin(), chosen.end(), [](uint8_t v) { return v != 0; });
    const bool all = std::all_of(chosen.begin(), chosen.end(), [](uint8_t v) { return v != 0; });
    const int here = all ? 2 : any ? 1 : 0;
    if (before >= 0 && here != before) return false;
    before = here;
  }
  return true;
}

Values rule_where(const RuleCall& call) {
  Value& condition = call.in(0);
  // IsNaN of probabilities: a row with one visible key has none.
  if (const Scores* test = condition.get<Scores>(); test != nullptr && test->is_nan_test) {
    Value out = call.in(2);
    return {std::move(out)};
  }
  if (condition.known() == nullptr) return rule_function(call);
  std::vector<Shape> shapes = inferred(call)[0].shapes;
  // The same side everywhere: the other one is for padding.
  bool all = true, none = true;
  for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
    for (const uint8_t v : condition.known()->at(world).as<uint8_t>()) {
      all = all && v != 0;
      none = none && v == 0;
    }
  }
  if (all || none) {
    Value& taken = call.in(all ? 1 : 2);
    if (taken.shapes == shapes) return {taken};
  }
  const auto scores_at = [&](size_t i) { return call.in(i).get<Scores>(); };
  for (const size_t side : {size_t{1}, size_t{2}}) {
    const Scores* scores = scores_at(side);
    Value& filler = call.in(3 - side);
    if (scores == nullptr || filler.known() == nullptr) continue;
    if (scores->normalised) return {opaque(call, "it changes probabilities")};
    if (scores->sink_column || scores->row_max) {
      return {opaque(call, "it masks attention scores together with their sinks")};
    }
    if (!(filler.known()->at(0).count() > 0)) break;
    std::vector<ir::Array> bias;
    bool hides = true;
    for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
      const ir::Array& c = condition.known()->at(world);
      const ir::Array fill = broadcast(filler.known()->at(world), c.shape());
      const std::vector<float> values = fill.to_f32();
      ir::Array made(ir::ElementType::kFloat, c.shape());
      const std::span<float> to = made.mutable_as<float>();
      const std::span<const uint8_t> chosen = c.as<uint8_t>();
      for (size_t i = 0; i < to.size(); ++i) {
        const bool keeps = (chosen[i] != 0) == (side == 1);
        to[i] = keeps ? 0.0f : values[i];
        hides = hides && (keeps || values[i] <= -kMaskedBelow);
      }
      bias.push_back(std::move(made));
    }
    // A score that is replaced and still seen would be no score any more.
    if (!hides) return {opaque(call, "it replaces attention scores by numbers that are no mask")};
    Scores masked = *scores;
    add_bias(masked, bias);
    return {scores_value(call.in(side).type, shapes, std::move(masked))};
  }
  if (!chooses_alike(call, condition)) {
    return {opaque(call, "it chooses between activations at some lengths and not at others")};
  }
  return rule_layout(call);
}

}  // namespace kvern::passes::token_form
