// Why an instruction runs by the implementation it runs by: `kvern inspect --why`.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace kvern::tune {

struct CandidateNote {
  std::string name;
  std::string numerics;  // of one id: bit-equal
  std::string reason;    // why it cannot be taken here; empty: it can
};

// Every implementation of the instruction's family, best first, as this processor sees it.
std::vector<CandidateNote> candidates(const plan::Instruction& instruction);
// Its shapes and formats, readable.
std::string describe(const plan::Instruction& instruction);

}  // namespace kvern::tune
