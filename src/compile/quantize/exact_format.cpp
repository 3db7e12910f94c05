#include "compile/quantize/exact_format.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace kvern::quantize {
namespace {

const ir::WeightSource& source_of(const ir::Graph& graph, const ir::RecipeNode& node) {
  if (node.source < 0 || static_cast<size_t>(node.source) >= graph.sources.size()) {
    throw Error(Code::kInvalidModel, fmt::format("recipe: source {} of {} does not exist",
                                                 node.source, graph.sources.size()));
  }
  return graph.sources[static_cast<size_t>(node.source)];
}

}  // namespace

QuantFormat join(const QuantFormat& a, const QuantFormat& b) {
  if (a == b) return a;
  if (!a.quantised() || !b.quantised()) return QuantFormat{};
  QuantFormat out;
  // Four-bit codes are signed without a minimum and unsigned with one: only i8 holds both.
  const bool both_i4 = a.storage == DType::kI4 && b.storage == DType::kI4;
  out.storage = both_i4 && a.has_min == b.has_min ? DType::kI4 : DType::kI8;
  out.group = std::min(a.group, b.group);  // powers of two
  out.scale = a.scale == DType::kF32 || b.scale == DType::kF32 ? DType::kF32 : DType::kF16;
  out.has_min = a.has_min || b.has_min;
  return out;
}

QuantFormat exact_format(const ir::Graph& graph, const ir::Weight& weight) {
  if (weight.shape.size() < 2) return {};
  std::optional<QuantFormat> exact;
  for (const ir::RecipeNode& node : weight.recipe.nodes) {
    if (node.op == ir::RecipeOp::kLiteral) return {};
    if (node.op != ir::RecipeOp::kSource) continue;
    const QuantFormat next = ir::source_type_info(source_of(graph, node).type).exact;
    exact = exact ? join(*exact, next) : next;
  }
  return exact.value_or(QuantFormat{});
}

bool holds_codes(const QuantFormat& target, const QuantFormat& source) {
  if (!target.quantised() || !source.quantised()) return false;
  const bool codes_fit = target.storage == DType::kI8 ||
                         (source.storage == DType::kI4 && target.has_min == source.has_min);
  const bool minimum_fits = target.has_min || !source.has_min;
  return codes_fit && minimum_fits && target.group > 0 && source.group % target.group == 0;
}

bool holds_exactly(const QuantFormat& target, const QuantFormat& source) {
  if (!target.quantised()) {
    return target.storage == DType::kF32 || target.storage == source.storage;
  }
  return holds_codes(target, source) &&
         (target.scale == DType::kF32 || source.scale == target.scale);
}

std::string source_names(const ir::Graph& graph, const ir::Weight& weight) {
  std::vector<std::string> names;
  for (const ir::RecipeNode& node : weight.recipe.nodes) {
    std::string name = "literal";
    if (node.op == ir::RecipeOp::kSource) {
      name = ir::source_type_info(source_of(graph, node).type).name;
    } else if (node.op != ir::RecipeOp::kLiteral) {
      continue;
    }
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

}  // namespace kvern::quantize
