#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "compile/eval/eval.h"
#include "compile/passes/match.h"
#include "compile/passes/passes.h"
#include "kvern/error.h"

namespace kvern::passes {
namespace {

constexpr int64_t kMaxElements = 4096;  // literals travel as text inside the plan

bool is_edge(const ir::Node& node) {
  return node.op == &ir::ops::kInput || node.op == &ir::ops::kWeight ||
         node.op == &ir::ops::kOutput;
}

std::optional<eval::HostTensor> literal_value(const ir::Graph& graph, ir::ValueId id) {
  const ir::Weight* weight = weight_of(graph, id);
  if (weight == nullptr || weight->recipe.nodes.back().op != ir::RecipeOp::kLiteral) return {};
  eval::HostTensor out;
  out.shape = weight->shape;
  for (const double value : weight->recipe.nodes.back().values) {
    out.f32.push_back(static_cast<float>(value));
  }
  return out;
}

bool may_hold_literal(const ir::Type& type) {
  if (type.is_kv() || type.dtype != DType::kF32 || !type.all_constant()) return false;
  if (type.dims.empty() || type.dims.size() > 2) return false;
  int64_t elements = 1;
  for (const ir::Dim& dim : type.dims) {
    if (dim.value() > kMaxElements) return false;  // and so the product cannot overflow
    elements *= dim.value();
  }
  return elements <= kMaxElements;
}

// The values of a node's outputs where all of them are constants worth keeping.
std::optional<std::vector<eval::HostTensor>> fold(const ir::Graph& graph, const ir::Node& node) {
  if (is_edge(node) || node.op->has_state) return {};
  for (const ir::ValueId id : node.outputs) {
    if (!may_hold_literal(graph.value(id).type)) return {};
  }
  std::vector<eval::HostTensor> inputs;
  for (const ir::ValueId id : node.inputs) {
    std::optional<eval::HostTensor> value = literal_value(graph, id);
    if (!value) return {};
    inputs.push_back(std::move(*value));
  }
  std::vector<eval::HostTensor> outputs = eval::run_node(node, inputs);
  for (const eval::HostTensor& output : outputs) {
    // An infinity is a fault of the model; it is left where a reader will find it.
    if (!std::all_of(output.f32.begin(), output.f32.end(),
                     [](float v) { return std::isfinite(v); }))
      return {};
  }
  return outputs;
}

std::string unused_weight_name(const ir::Graph& graph, const std::string& hint) {
  std::string name = hint;
  for (int i = 1; graph.weight_index(name) >= 0; ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

// Puts a weight node before node `index`; returns its value.
ir::ValueId insert_literal(ir::Graph& graph, size_t index, const std::string& hint,
                           const eval::HostTensor& value) {
  ir::RecipeNode literal;
  literal.op = ir::RecipeOp::kLiteral;
  literal.values.assign(value.f32.begin(), value.f32.end());
  const std::string name = unused_weight_name(graph, hint);
  graph.weights.push_back({name, value.shape, {{std::move(literal)}}, {}});
  return graph.insert(index, ir::ops::kWeight, {},
                      ir::Attrs::of(ir::WeightAttrs{name, value.shape}), hint)[0];
}

}  // namespace

PassReport constant_folding(ir::Graph& graph) {
  PassReport report;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto values = fold(graph, graph.nodes()[i]);
    if (!values) continue;
    const std::vector<ir::ValueId> old = graph.nodes()[i].outputs;
    std::vector<std::pair<ir::ValueId, ir::ValueId>> exchanged;
    size_t index = i;
    for (size_t o = 0; o < old.size(); ++o) {
      const ir::ValueId made =
          insert_literal(graph, index++, graph.value(old[o]).name, (*values)[o]);
      exchanged.emplace_back(old[o], made);
    }
    exchange(graph, exchanged, {index});
    i = index - 1;
    ++report.num_changes;
  }
  return report;
}

}  // namespace kvern::passes
