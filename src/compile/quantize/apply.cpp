// Which storage every weight gets.
#include <algorithm>

#include "base/check.h"
#include "compile/ir/ops.h"
#include "compile/quantize/exact_format.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {
namespace {

constexpr QuantFormat kInt8 = {DType::kI8, 32, DType::kF16, false};
constexpr QuantFormat kInt4 = {DType::kI4, 32, DType::kF16, true};

QuantFormat choose(const QuantFormat& exact, WeightChoice choice) {
  switch (choice) {
    case WeightChoice::kKeep:
      return exact;
    case WeightChoice::kF32:
      return {};
    case WeightChoice::kF16:
      return {.storage = DType::kF16};
    case WeightChoice::kBf16:
      return {.storage = DType::kBf16};
    case WeightChoice::kInt8:
      return kInt8;
    case WeightChoice::kInt4: {
      // Codes that have four bits already stay; only scales are rounded, where they are f32.
      QuantFormat format = kInt4;
      if (exact.storage == DType::kI4 && exact.group == kInt4.group) format.has_min = exact.has_min;
      return format;
    }
  }
  KVERN_CHECK(false, "weight choice {} does not exist", static_cast<int>(choice));
}

// Every part on its own: rows of a joined weight may differ in what they lose.
bool stays_exact(const ir::Graph& graph, const ir::Weight& weight, const QuantFormat& target) {
  for (const QuantFormat& part : part_formats(graph, weight)) {
    if (!holds_exactly(target, part)) return false;
  }
  return true;
}

// Numbers that the import wrote, rows of which are looked up: cos and sin by position.
bool is_table(const ir::Graph& graph, const ir::Weight& weight) {
  const std::vector<ir::RecipeNode>& nodes = weight.recipe.nodes;
  if (nodes.size() != 1 || nodes[0].op != ir::RecipeOp::kLiteral) return false;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    if (node.op != &ir::ops::kEmbedding) return false;
    const ir::Node& table = graph.nodes()[graph.producer(node.inputs[1])];
    return table.op == &ir::ops::kWeight && table.attrs.as<ir::WeightAttrs>().name == weight.name;
  });
}

}  // namespace

std::vector<WeightNote> apply(ir::Graph& graph, WeightChoice choice) {
  std::vector<WeightNote> notes;
  for (ir::Weight& weight : graph.weights) {
    const QuantFormat exact = exact_format(graph, weight);
    const bool is_small = weight.shape.size() < 2 || is_table(graph, weight);
    weight.storage = is_small ? QuantFormat{} : choose(exact, choice);
    WeightNote note;
    note.name = weight.name;
    note.from = source_names(graph, weight);
    note.to = to_string(weight.storage);
    note.exact = stays_exact(graph, weight, weight.storage);
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace kvern::quantize
