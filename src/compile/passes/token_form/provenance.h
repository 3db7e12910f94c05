// Initializers on their way into weights, and constants that nobody computes until they are asked
// for.
#pragma once

#include <optional>

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

Value constant_value(const Walk& walk, const ir::Array& array);
// A large constant that stays a weight under a turn, a reshape or a cast; nothing where the node
// should simply be evaluated.
std::optional<Value> fold_lazily(const RuleCall& call);
// Marks the outputs of an evaluated node with where they come from.
void keep_provenance(const RuleCall& call, std::vector<Value>& outputs);
// Where a constant comes from; what was computed is its own source, without a place in a file.
std::shared_ptr<const Provenance> provenance_of(Value& value);

}  // namespace kvern::passes::token_form
