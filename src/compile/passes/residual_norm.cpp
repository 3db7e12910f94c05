#include <fmt/format.h>

#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {

PassReport residual_norm(ir::Graph& graph) {
  PassReport report;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != &ir::ops::kRmsNorm) continue;
    const ir::Node norm = graph.nodes()[i];
    if (norm.attrs.as<ir::NormAttrs>().heads != 1) continue;
    const ir::ValueId sum = norm.inputs[0];
    const size_t add = graph.producer(sum);
    if (graph.nodes()[add].op != &ir::ops::kAdd) continue;
    // The fused node stands where the norm was, so the sum must not be read before.
    if (graph.users(sum).front() != i) {
      report.notes.push_back(fmt::format("{}: not fused: the sum is read before the norm",
                                         graph.value(norm.outputs[0]).name));
      continue;
    }
    const std::vector<ir::ValueId> terms = graph.nodes()[add].inputs;
    const std::vector<ir::ValueId> fused =
        graph.insert(i, ir::ops::kAddRmsNorm, {terms[0], terms[1], norm.inputs[1]}, norm.attrs,
                     graph.value(norm.outputs[0]).name);
    exchange(graph, {{sum, fused[0]}, {norm.outputs[0], fused[1]}}, {add, i + 1});
    --i;
    ++report.num_changes;
  }
  return report;
}

}  // namespace kvern::passes
