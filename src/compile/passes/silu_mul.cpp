#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {

PassReport silu_mul(ir::Graph& graph) {
  PassReport report;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != &ir::ops::kMul) continue;
    const ir::ValueId out = graph.nodes()[i].outputs[0];
    const std::vector<ir::ValueId> operands = graph.nodes()[i].inputs;
    for (const size_t side : {0, 1}) {
      const size_t silu = graph.producer(operands[side]);
      if (graph.nodes()[silu].op != &ir::ops::kSilu || !has_one_use(graph, operands[side]))
        continue;
      const ir::ValueId gate = graph.nodes()[silu].inputs[0];
      const ir::ValueId fused = graph.insert(i, ir::ops::kSiluMul, {gate, operands[1 - side]}, {},
                                             graph.value(out).name)[0];
      exchange(graph, {{out, fused}}, {silu, i + 1});
      --i;  // the silu before it is gone
      ++report.num_changes;
      break;
    }
  }
  return report;
}

}  // namespace kvern::passes
