// Whether an output scores the vocabulary: exports of hidden states look the same otherwise.
#pragma once

#include <string>

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// `logits`: the value of token form that output `name` is. Throws Error(kUnsupported) where it
// comes from a norm instead of a product with weights, or is far narrower than the embedding has
// rows.
void check_head(const Walk& walk, ir::ValueId logits, const std::string& name);

}  // namespace kvern::passes::token_form
