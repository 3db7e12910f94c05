// Which input of a graph holds the ids of tokens.
#pragma once

#include "compile/ir/tensor_graph.h"
#include "compile/passes/token_form/token_form.h"

namespace kvern::passes::token_form {

// What the user declares of the input with --input; empty: nothing.
std::string declared_as(const TokenFormOptions& options, const std::string& input);

// As declared, else by name, else the one input of integers that chooses rows of a matrix. Throws
// Error(kUnsupported) where there is none, or several.
ir::TensorValueId find_ids(const ir::TensorGraph& graph, const TokenFormOptions& options);

}  // namespace kvern::passes::token_form
