#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {

PassReport gate_mul(ir::Graph& graph) {
  PassReport report;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != &ir::ops::kMul) continue;
    const ir::ValueId out = graph.nodes()[i].outputs[0];
    const std::vector<ir::ValueId> operands = graph.nodes()[i].inputs;
    for (const size_t side : {0, 1}) {
      const size_t activation = graph.producer(operands[side]);
      const ir::OpSchema* op = gated_form(graph.nodes()[activation].op);
      if (op == nullptr || !has_one_use(graph, operands[side])) continue;
      const ir::ValueId gate = graph.nodes()[activation].inputs[0];
      const ir::ValueId fused =
          graph.insert(i, *op, {gate, operands[1 - side]}, {}, graph.value(out).name)[0];
      exchange(graph, {{out, fused}}, {activation, i + 1});
      --i;  // the activation before it is gone
      ++report.num_changes;
      break;
    }
  }
  return report;
}

}  // namespace kvern::passes
