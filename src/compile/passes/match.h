// Questions that passes ask of a graph, and the way they exchange values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/ir/graph.h"
#include "compile/ir/ops.h"

namespace kvern::passes {

// The node that makes `id`.
const ir::Node& producer_node(const ir::Graph& graph, ir::ValueId id);
// True where one node reads `id`, at one of its inputs.
bool has_one_use(const ir::Graph& graph, ir::ValueId id);
// The Weight that `id` is the value of; nullptr where a weight node does not make it.
const ir::Weight* weight_of(const ir::Graph& graph, ir::ValueId id);

// What an activation becomes when the gate that it opens is multiplied in; nullptr for any other
// op.
const ir::OpSchema* gated_form(const ir::OpSchema* activation);

// Makes every reader of each `first` read `second` instead, erases `nodes` (which made the first
// ones) and gives the second ones their names, so that the text stays familiar.
void exchange(ir::Graph& graph, const std::vector<std::pair<ir::ValueId, ir::ValueId>>& values,
              std::vector<size_t> nodes);

}  // namespace kvern::passes
