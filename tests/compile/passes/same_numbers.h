// Proof that two graphs mean the same: equal outputs on random weights and inputs.
#pragma once

#include "compile/ir/graph.h"

namespace kvern::passes {

// Evaluates both graphs on chunks of several lengths, each pair of chunks over one KV state.
// Where only `after` takes "wanted", its rows are compared with those rows of `before`.
void expect_same_numbers(const ir::Graph& before, const ir::Graph& after);

}  // namespace kvern::passes
