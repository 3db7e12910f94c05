// Attention sinks as exports write them: a column that joins the scores before softmax and leaves
// the probabilities after it, so that it only takes its share.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// Concat(scores, one constant column) over the last axis; nothing for any other join.
std::optional<Value> join_sinks(const RuleCall& call);
// Slice of probabilities that takes the column of sinks off again; nothing for any other.
std::optional<Value> drop_sinks(const RuleCall& call);
// One sink per head [heads], for ops that have them as an input. `heads` is dim 1 of the scores.
std::vector<ir::Array> sinks_by_head(const Walk& walk, const std::vector<float>& values);

}  // namespace kvern::passes::token_form
