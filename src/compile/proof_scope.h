// What the proof of a conversion says nothing of: it compares graphs, not the plan's own kernels.
#pragma once

#include <string>
#include <vector>

#include "compile/quantize/materialize.h"
#include "plan/program.h"
#include "tensor/dtype.h"

namespace kvern::compile {

// Both sides of a proof.
inline constexpr const char* kProofCompares =
    "the file's graph and the plan's, both in plain f32 with the file's own weights";

// Roundings of the plan that come on top, one phrase each; tactics must be picked.
std::vector<std::string> not_compared(const plan::Program& program,
                                      const std::vector<quantize::WeightNote>& weights,
                                      DType kv_storage);

}  // namespace kvern::compile
