#include "compile/tune/candidates.h"

#include "kernels/family.h"

namespace kvern::tune {

std::vector<CandidateNote> candidates(const plan::Instruction& instruction) {
  std::vector<CandidateNote> out;
  const kernels::Family* family = kernels::find_family(instruction.family);
  if (family == nullptr) return out;
  for (const kernels::Candidate& candidate : family->candidates(instruction.desc)) {
    out.push_back({candidate.name, candidate.numerics, candidate.verdict.reason});
  }
  return out;
}

std::string describe(const plan::Instruction& instruction) {
  const kernels::Family* family = kernels::find_family(instruction.family);
  return family == nullptr ? "" : family->describe(instruction.desc);
}

}  // namespace kvern::tune
