#include "compile/passes/match.h"

#include <algorithm>

namespace kvern::passes {

const ir::Node& producer_node(const ir::Graph& graph, ir::ValueId id) {
  return graph.nodes()[graph.producer(id)];
}

bool has_one_use(const ir::Graph& graph, ir::ValueId id) {
  int uses = 0;
  for (const size_t user : graph.users(id)) {
    const auto& inputs = graph.nodes()[user].inputs;
    uses += static_cast<int>(std::count(inputs.begin(), inputs.end(), id));
  }
  return uses == 1;
}

const ir::Weight* weight_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::Node& node = producer_node(graph, id);
  if (node.op != &ir::ops::kWeight) return nullptr;
  const int index = graph.weight_index(node.attrs.as<ir::WeightAttrs>().name);
  return index < 0 ? nullptr : &graph.weights[static_cast<size_t>(index)];
}

const ir::OpSchema* gated_form(const ir::OpSchema* activation) {
  if (activation == &ir::ops::kSilu) return &ir::ops::kSiluMul;
  if (activation == &ir::ops::kGeluTanh) return &ir::ops::kGeluTanhMul;
  if (activation == &ir::ops::kGeluErf) return &ir::ops::kGeluErfMul;
  return nullptr;
}

void exchange(ir::Graph& graph, const std::vector<std::pair<ir::ValueId, ir::ValueId>>& values,
              std::vector<size_t> nodes) {
  std::vector<std::string> names;
  for (const auto& [from, to] : values) {
    names.push_back(graph.value(from).name);
    graph.replace_all_uses(from, to);
  }
  graph.erase(std::move(nodes));
  for (size_t i = 0; i < values.size(); ++i) graph.rename(values[i].second, names[i]);
}

}  // namespace kvern::passes
