#include "compile/import/families/weight_set.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/ir/ops.h"

namespace kvern::import {
namespace {

ir::RecipeNode rows_step(int64_t first_row, int64_t num_rows) {
  ir::RecipeNode step;
  step.op = ir::RecipeOp::kSliceRows;
  step.first_row = first_row;
  step.num_rows = num_rows;
  return step;
}

ir::RecipeNode transpose_step() {
  ir::RecipeNode step;
  step.op = ir::RecipeOp::kTranspose;
  return step;
}

}  // namespace

WeightSet::WeightSet(ir::Graph& graph, std::vector<ir::WeightSource> sources, std::string who)
    : graph_(graph), who_(std::move(who)), used_(sources.size(), false) {
  graph_.sources = std::move(sources);
  for (size_t i = 0; i < graph_.sources.size(); ++i) {
    by_source_name_.emplace(graph_.sources[i].name, static_cast<int32_t>(i));
  }
}

bool WeightSet::bind_steps(const std::string& name, const std::string& source_name,
                           std::vector<ir::RecipeNode> steps) {
  if (synthetic_) {
    bound_[name] = {};
    return true;
  }
  const auto found = by_source_name_.find(source_name);
  if (found == by_source_name_.end()) return false;
  Binding binding;
  binding.source = found->second;
  ir::RecipeNode leaf;
  leaf.source = found->second;
  binding.recipe.nodes.push_back(leaf);
  for (ir::RecipeNode& step : steps) {
    step.inputs = {static_cast<int32_t>(binding.recipe.nodes.size()) - 1};
    binding.recipe.nodes.push_back(std::move(step));
  }
  bound_[name] = std::move(binding);
  return true;
}

bool WeightSet::bind(const std::string& name, const std::string& source_name,
                     int32_t unpermute_heads) {
  if (unpermute_heads <= 0) return bind_steps(name, source_name, {});
  ir::RecipeNode turn;
  turn.op = ir::RecipeOp::kUnpermute;
  turn.heads = unpermute_heads;
  return bind_steps(name, source_name, {turn});
}

bool WeightSet::bind_rows(const std::string& name, const std::string& source_name,
                          int64_t first_row, int64_t num_rows) {
  return bind_steps(name, source_name, {rows_step(first_row, num_rows)});
}

bool WeightSet::bind_transposed(const std::string& name, const std::string& source_name) {
  return bind_steps(name, source_name, {transpose_step()});
}

bool WeightSet::bind_transposed_rows(const std::string& name, const std::string& source_name,
                                     int64_t first_row, int64_t num_rows) {
  return bind_steps(name, source_name, {transpose_step(), rows_step(first_row, num_rows)});
}

bool WeightSet::bind_head_part(const std::string& name, const std::string& source_name,
                               int32_t heads, int32_t parts, int32_t part) {
  ir::RecipeNode take;
  take.op = ir::RecipeOp::kHeadPart;
  take.heads = heads;
  take.parts = parts;
  take.part = part;
  return bind_steps(name, source_name, {take});
}

bool WeightSet::bind_offset(const std::string& name, const std::string& source_name,
                            double offset) {
  ir::RecipeNode add;
  add.op = ir::RecipeOp::kOffset;
  add.values = {offset};
  return bind_steps(name, source_name, {add});
}

Shape WeightSet::made_shape(const std::string& name, const Binding& binding) const {
  try {
    return ir::recipe_shape(binding.recipe, graph_.sources, {});
  } catch (const Error& error) {
    const ir::WeightSource& source = graph_.sources[binding.source];
    throw Error(Code::kInvalidModel,
                fmt::format("{}: tensor '{}' of shape {} cannot become '{}': {}", who_, source.name,
                            to_string(source.shape), name, error.what()));
  }
}

// A source as a file would bring it, of the shape that is asked for.
void WeightSet::draw(const std::string& name, const Shape& shape, Binding& binding) {
  binding.source = static_cast<int32_t>(graph_.sources.size());
  ir::WeightSource source;
  source.name = name;
  source.type = ir::SourceType::kBf16;
  source.shape = shape;
  graph_.sources.push_back(std::move(source));
  used_.push_back(true);
  ir::RecipeNode leaf;
  leaf.source = binding.source;
  binding.recipe.nodes = {leaf};
}

ir::ValueId WeightSet::take(const std::string& name, const Shape& shape) {
  const auto found = bound_.find(name);
  KVERN_CHECK(found != bound_.end(), "weight '{}' was never bound", name);
  Binding& binding = found->second;
  if (synthetic_ && !binding.value.valid()) draw(name, shape, binding);
  const ir::WeightSource& source = graph_.sources[binding.source];
  const Shape made = made_shape(name, binding);
  if (made != shape) {
    const std::string part =
        made == source.shape ? "" : fmt::format(", of which '{}' takes {}", name, to_string(made));
    throw Error(Code::kInvalidModel,
                fmt::format("{}: tensor '{}' has shape {}{}, but the model's configuration asks "
                            "for {}; the two do not belong together",
                            who_, source.name, to_string(source.shape), part, to_string(shape)));
  }
  used_[binding.source] = true;
  if (!binding.value.valid()) {
    // Vectors are read as f32 by every kernel; matrices keep what holds them exactly.
    const QuantFormat storage =
        shape.size() == 1 ? QuantFormat{} : ir::source_type_info(source.type).exact;
    graph_.weights.push_back({name, shape, binding.recipe, storage});
    binding.value =
        graph_.add1(ir::ops::kWeight, {}, ir::Attrs::of(ir::WeightAttrs{name, shape}), name);
  }
  return binding.value;
}

ir::ValueId WeightSet::literal(const std::string& name, std::vector<double> values) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  ir::RecipeNode node;
  node.op = ir::RecipeOp::kLiteral;
  node.values = std::move(values);
  graph_.weights.push_back({name, shape, {{std::move(node)}}, {}});
  return graph_.add1(ir::ops::kWeight, {}, ir::Attrs::of(ir::WeightAttrs{name, shape}), name);
}

bool WeightSet::discard(const std::string& source_name) {
  const auto found = by_source_name_.find(source_name);
  if (found == by_source_name_.end()) return false;
  used_[found->second] = true;
  return true;
}

std::vector<std::string> WeightSet::unused() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]) names.push_back(graph_.sources[i].name);
  }
  return names;
}

}  // namespace kvern::import
