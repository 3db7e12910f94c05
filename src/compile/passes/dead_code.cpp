#include <fmt/format.h>

#include <set>

#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {

PassReport dead_code(ir::Graph& graph) {
  PassReport report;
  std::vector<bool> needed(graph.num_values(), false);
  std::vector<size_t> dead;
  std::set<std::string> weights;
  const std::vector<ir::Node>& nodes = graph.nodes();
  for (size_t i = nodes.size(); i-- > 0;) {
    const ir::Node& node = nodes[i];
    bool live = node.op == &ir::ops::kOutput || node.op == &ir::ops::kInput;
    for (const ir::ValueId id : node.outputs) live |= needed[static_cast<size_t>(id.value)];
    if (!live) {
      dead.push_back(i);
      continue;
    }
    for (const ir::ValueId id : node.inputs) needed[static_cast<size_t>(id.value)] = true;
    if (node.op == &ir::ops::kWeight) weights.insert(node.attrs.as<ir::WeightAttrs>().name);
  }
  report.num_changes = static_cast<int>(dead.size());
  graph.erase(std::move(dead));
  std::erase_if(graph.weights, [&](const ir::Weight& weight) {
    if (weights.contains(weight.name)) return false;
    report.notes.push_back(fmt::format("weight '{}' is not used", weight.name));
    ++report.num_changes;
    return true;
  });
  return report;
}

}  // namespace kvern::passes
