// Why an op that no rule knows cannot run on tokens of several sequences.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// Empty where nothing particular is known of it.
std::string why_no_rule(const RuleCall& call);

}  // namespace kvern::passes::token_form
