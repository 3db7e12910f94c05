// Chooses a tactic for every instruction. Times come from the timing cache; without one (today
// always), from a fixed table, so that the same inputs give the same plan on every machine.
#pragma once

#include "plan/program.h"

namespace kvern::tune {

// Sets Instruction::tactic. Throws Error(kUnsupported) when no implementation takes an instruction.
void pick(plan::Program& program);

}  // namespace kvern::tune
