// The rotations of a graph beside those that its config.json asks for.
#pragma once

#include <string>
#include <vector>

#include "compile/import/config_facts.h"
#include "compile/ir/graph.h"

namespace kvern::compile {

// Of a set of frequencies of the graph that no rope of the configuration gives: what the
// configuration says, and what the graph has.
struct OtherRope {
  std::string config, graph;
};
std::vector<OtherRope> other_ropes(const import::ConfigFacts& config, const ir::Graph& graph);

}  // namespace kvern::compile
