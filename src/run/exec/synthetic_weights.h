// Weights of a plan built from a configuration alone: real shapes, drawn numbers.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan.h"

namespace kvern::exec {

// Fills `to` (weight.size_bytes, 64-byte aligned) with the weight's packed form. Matrices are
// uniform with the variance 1/k, so that activations keep their size through a linear; vectors that
// scale (norms) are 1, biases 0. A function of seed, name, shape and format alone.
void fill_synthetic(const plan::Weight& weight, uint64_t seed, std::span<std::byte> to);

}  // namespace kvern::exec
