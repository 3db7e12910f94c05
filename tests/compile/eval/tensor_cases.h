// Cases of one graph each, as scripts/golden/tensor_text.py writes them: inputs and what another
// engine gave as constants.
#pragma once

#include <string>
#include <vector>

#include "compile/ir/tensor_graph.h"

namespace kvern::eval {

struct TensorCase {
  std::string name;
  ir::TensorGraph graph;  // %want.0, %want.1, … are its expected outputs
};

// Throws Error where the text is broken.
std::vector<TensorCase> read_tensor_cases(const std::string& path);
// Why the graph's outputs are not the wanted ones; empty when they are. Floats within
// tolerance * (1 + |wanted|), half precision within 10 times that; all else is equal.
std::string run_tensor_case(const TensorCase& test, double tolerance = 1e-4);
// Where infer_tensor_node says other types or shapes than evaluation; empty when it says the same.
std::string infer_tensor_case(const TensorCase& test);

}  // namespace kvern::eval
