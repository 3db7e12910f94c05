// What became of one value of the graph: `kvern inspect --why`.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace kvern::compile {

// The instruction that computes `value` ("layers.3.attn.qkv"), every implementation with its
// verdict on this machine, its line of the compiled graph, its weights and where they come from.
// `value` may also be a weight, or a tensor of the source's files: where it went, then.
// Throws Error(kInvalidArgument) naming similar values when the plan computes none of that name.
std::string explain(const plan::Plan& plan, std::string_view value);

}  // namespace kvern::compile
