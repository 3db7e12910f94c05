// How long each instruction of a decode step takes here: measured on zeros, before there is a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/kv_layout.h"
#include "plan/plan.h"

namespace kvern::tune {

// Microseconds per instruction, of one sequence whose next token sees `context_tokens`: the best of
// a few runs of the whole step, so that no instruction finds its weights in a cache. Buffers must
// have their places. Takes the memory of the KV pages and up to 256 MB of weights.
std::vector<double> time_decode_step(const plan::Program& program,
                                     const std::vector<plan::Weight>& weights,
                                     const plan::KvLayout& layout, int64_t context_tokens);

}  // namespace kvern::tune
