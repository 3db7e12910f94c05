#include "compile/quantize/exact_format.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "compile/quantize/dequantize.h"

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
  // Powers of two; a scale of a whole row is one of every group in it.
  out.group = std::min(a.group, b.group);
  if (out.group == 0) out.group = std::max(a.group, b.group);
  out.scale = a.scale == DType::kF32 || b.scale == DType::kF32 ? DType::kF32 : DType::kF16;
  out.has_min = a.has_min || b.has_min;
  return out;
}

std::vector<QuantFormat> part_formats(const ir::Graph& graph, const ir::Weight& weight) {
  const std::vector<bool> inside = read_by_dequantize(weight.recipe, true);
  std::vector<QuantFormat> out;
  for (size_t i = 0; i < weight.recipe.nodes.size(); ++i) {
    const ir::RecipeNode& node = weight.recipe.nodes[i];
    if (inside[i]) continue;
    if (node.op == ir::RecipeOp::kLiteral) out.emplace_back();
    if (node.op == ir::RecipeOp::kDequantize) {
      out.push_back(dequantized_format(graph, weight.recipe, node));
    }
    if (node.op == ir::RecipeOp::kSource) {
      out.push_back(ir::source_type_info(source_of(graph, node).type).exact);
    }
  }
  return out;
}

QuantFormat exact_format(const ir::Graph& graph, const ir::Weight& weight) {
  if (weight.shape.size() < 2) return {};
  std::optional<QuantFormat> exact;
  for (const QuantFormat& part : part_formats(graph, weight)) {
    exact = exact ? join(*exact, part) : part;
  }
  return exact.value_or(QuantFormat{});
}

bool holds_codes(const QuantFormat& target, const QuantFormat& source) {
  if (!target.quantised() || !source.quantised()) return false;
  const bool codes_fit = target.storage == DType::kI8 ||
                         (source.storage == DType::kI4 && target.has_min == source.has_min);
  const bool minimum_fits = target.has_min || !source.has_min;
  const bool groups_fit =
      target.group == source.group || (target.group > 0 && source.group % target.group == 0);
  return codes_fit && minimum_fits && groups_fit;
}

bool holds_exactly(const QuantFormat& target, const QuantFormat& source) {
  if (!target.quantised()) {
    return target.storage == DType::kF32 || target.storage == source.storage;
  }
  return holds_codes(target, source) &&
         (target.scale == DType::kF32 || source.scale == target.scale);
}

std::string source_names(const ir::Graph& graph, const ir::Weight& weight) {
  const std::vector<bool> beside = read_by_dequantize(weight.recipe, false);
  std::vector<std::string> names;
  for (size_t i = 0; i < weight.recipe.nodes.size(); ++i) {
    const ir::RecipeNode& node = weight.recipe.nodes[i];
    if (beside[i]) continue;
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
