#include "compile/import/families/weight_set.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/ir/ops.h"

namespace kvern::import {
namespace {

ir::Recipe make_recipe(int32_t source, int32_t unpermute_heads) {
  ir::Recipe recipe;
  ir::RecipeNode leaf;
  leaf.op = ir::RecipeOp::kSource;
  leaf.source = source;
  recipe.nodes.push_back(leaf);
  if (unpermute_heads > 0) {
    ir::RecipeNode turn;
    turn.op = ir::RecipeOp::kUnpermute;
    turn.inputs = {0};
    turn.heads = unpermute_heads;
    recipe.nodes.push_back(turn);
  }
  return recipe;
}

}  // namespace

WeightSet::WeightSet(ir::Graph& graph, std::vector<ir::WeightSource> sources, std::string who)
    : graph_(graph), who_(std::move(who)), used_(sources.size(), false) {
  graph_.sources = std::move(sources);
  for (size_t i = 0; i < graph_.sources.size(); ++i) {
    by_source_name_.emplace(graph_.sources[i].name, static_cast<int32_t>(i));
  }
}

bool WeightSet::bind(const std::string& name, const std::string& source_name,
                     int32_t unpermute_heads) {
  const auto found = by_source_name_.find(source_name);
  if (found == by_source_name_.end()) return false;
  bound_[name] = {found->second, unpermute_heads, {}};
  return true;
}

ir::ValueId WeightSet::take(const std::string& name, const Shape& shape) {
  const auto found = bound_.find(name);
  KVERN_CHECK(found != bound_.end(), "weight '{}' was never bound", name);
  Binding& binding = found->second;
  const ir::WeightSource& source = graph_.sources[binding.source];
  if (source.shape != shape) {
    throw Error(Code::kInvalidModel,
                fmt::format("{}: tensor '{}' has shape {}, but the model's configuration asks for "
                            "{}; the two do not belong together",
                            who_, source.name, to_string(source.shape), to_string(shape)));
  }
  used_[binding.source] = true;
  if (!binding.value.valid()) {
    // Vectors are read as f32 by every kernel; matrices keep what holds them exactly.
    const QuantFormat storage =
        shape.size() == 1 ? QuantFormat{} : ir::source_type_info(source.type).exact;
    graph_.weights.push_back(
        {name, shape, make_recipe(binding.source, binding.unpermute_heads), storage});
    binding.value =
        graph_.add1(ir::ops::kWeight, {}, ir::Attrs::of(ir::WeightAttrs{name, shape}), name);
  }
  return binding.value;
}

std::vector<std::string> WeightSet::unused() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]) names.push_back(graph_.sources[i].name);
  }
  return names;
}

}  // namespace kvern::import
