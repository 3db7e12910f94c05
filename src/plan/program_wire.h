// Programs as bytes, and the checks that make a program read from a file safe to look at: every
// index in range, every buffer inside its arena. What a Desc may say is checked by its kernel
// family.
#pragma once

#include "base/wire.h"
#include "plan/program.h"

namespace kvern::plan {

void write_program(WireWriter& out, const Program& program);
Program read_program(WireReader& in);

// Throws Error(kInvalidPlan) naming the instruction or buffer. num_weights: size of Plan::weights.
void validate_program(const Program& program, size_t num_weights);

}  // namespace kvern::plan
