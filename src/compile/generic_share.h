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
    double share = 0;  // of the bytes that the whole step moves
  };
  double total = 0;
  std::vector<Line> lines;  // largest first
};

// Of one sequence that holds `context_tokens`: a decode step moves weights, rows and KV pages, and
// takes about as long as that does.
GenericShare generic_share(const lower::Lowered& lowered, const plan::KvLayout& layout,
                           int64_t context_tokens);

// Above 10 % of the step, names the values that cost most.
void warn_of_generic(const GenericShare& share, std::vector<std::string>& warnings);

}  // namespace kvern::compile
