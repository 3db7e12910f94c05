// Holds a program from a file to the kernels, the weights and the KV layout of its plan.
#pragma once

#include <memory>
#include <vector>

#include "kernels/family.h"
#include "plan/plan.h"

namespace kvern::exec {

// One prepared op per instruction. Throws Error(kInvalidPlan) naming the instruction when an
// operand could reach outside its memory, and Error(kUnsupported) for a family that is not there.
// Tactics are preferences: where this processor takes others, one warning says so.
std::vector<std::unique_ptr<kernels::PreparedOp>> prepare_program(const plan::Plan& plan,
                                                                  bool plain_kernels);

// Index into Program::outputs of "logits", checked to hold vocabulary_size values per wanted row.
size_t find_logits(const plan::Plan& plan);

}  // namespace kvern::exec
