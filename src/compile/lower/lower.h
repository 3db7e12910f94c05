// Graph -> program of Descs. The last place that sees a node.
#pragma once

#include <string>
#include <vector>

#include "compile/ir/graph.h"
#include "kvern/types.h"
#include "plan/kv_layout.h"
#include "plan/plan.h"

namespace kvern::lower {

// Kernel calls in the graph's order. Buffers have sizes but no places yet (place_buffers).
struct Lowered {
  plan::Program program;
  std::vector<plan::Weight> weights;  // in order of first use
  std::vector<int> weight_index;      // of each, into Graph::weights
};

// Throws Error(kUnsupported) naming a node that no kernel family computes. Slots of the graph are
// indices into `layout`. `activations` are those of every linear but the head, whose outputs are
// the logits themselves.
Lowered program(const ir::Graph& graph, const plan::KvLayout& layout,
                Activations activations = Activations::kDefault);

// Gives every buffer its place: buffers whose lives do not overlap share bytes.
void place_buffers(plan::Program& program);

}  // namespace kvern::lower
