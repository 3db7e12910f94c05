// Where the processor at hand takes other implementations than the plan prefers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/family.h"
#include "plan/plan.h"

namespace kvern::exec {

// One line for people: how many instructions, what was wanted, what was taken and why. Empty when
// every instruction got the tactic it names. ops: one per instruction.
std::string other_tactics(const plan::Plan& plan,
                          const std::vector<std::unique_ptr<kernels::PreparedOp>>& ops);

// Those that stand before `taken` in the family's table, each with why it was not taken. Empty when
// it is the best one.
std::string better_than(const plan::Instruction& instruction, std::string_view taken);

}  // namespace kvern::exec
