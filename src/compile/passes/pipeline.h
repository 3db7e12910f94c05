// The passes, in order. Each is one file, takes a graph and leaves a graph with the same meaning.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/ir/graph.h"

namespace kvern::passes {

struct PassReport {
  std::string pass;
  int num_changes = 0;
  std::vector<std::string> notes;  // "layers.3: q, k, v not joined: Q4_1 and Q8_0 differ"
};

struct Pass {
  const char* name;
  PassReport (*run)(ir::Graph& graph);
};

std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);

// Runs every pass and verifies the graph after each.
std::vector<PassReport> run_pipeline(ir::Graph& graph);

}  // namespace kvern::passes
