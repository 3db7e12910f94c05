#include "compile/tune/tune.h"

#include <fmt/format.h>

#include "kernels/family.h"
#include "kvern/error.h"

namespace kvern::tune {

namespace {

// A plan that no engine could load is not built.
void check(const kernels::Family& family, const plan::Instruction& instruction) {
  try {
    family.validate(instruction.desc);
  } catch (const Error& problem) {
    throw Error(Code::kUnsupported,
                fmt::format("cannot build '{}': {}", instruction.source, problem.what()));
  }
}

}  // namespace

// Without times the table's own order is the fixed table: the first implementation that computes
// the Desc, whatever this machine's processor lacks. A machine that lacks it takes the next one at
// load.
void pick(plan::Program& program) {
  for (plan::Instruction& instruction : program.instructions) {
    const kernels::Family* family = kernels::find_family(instruction.family);
    if (family == nullptr) {
      throw InternalError(fmt::format("no kernel family '{}'", instruction.family));
    }
    check(*family, instruction);
    for (const kernels::Candidate& candidate : family->candidates(instruction.desc)) {
      if (!candidate.verdict.supported && !candidate.verdict.processor) continue;
      instruction.tactic = candidate.name;
      break;
    }
  }
}

}  // namespace kvern::tune
