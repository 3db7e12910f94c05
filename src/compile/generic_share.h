// What the ops that no kernel of their own computes (map, select, row_reduce) cost of a decode
// step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/lower/lower.h"

namespace kvern::compile {

struct GenericShare {
  struct Line {
    std::string source;  // the graph's value
    std::string family;
    std::string node;  // of the file; empty where the graph does not know
    double share = 0;  // of the step
  };
  bool measured = false;  // else estimated by the bytes that an instruction moves
  double total = 0;
  std::vector<Line> lines;  // largest first
};

// Of one sequence that holds `context_tokens`: a decode step moves weights, rows and KV pages, and
// takes about as long as that does.
GenericShare generic_share(const lower::Lowered& lowered, const plan::KvLayout& layout,
                           int64_t context_tokens);

// The same by the time that every instruction takes: not for a plan, which holds none.
GenericShare measured_share(const plan::Program& program, const std::vector<double>& times_us);

// Sets Line::node of every line.
void name_nodes(const ir::Graph& graph, GenericShare& share);

// Above 10 % of the step: names what costs most. Empty below.
std::string generic_warning(const GenericShare& share);

}  // namespace kvern::compile
