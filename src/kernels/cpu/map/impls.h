#pragma once

#include <array>

#include "kernels/map.h"

namespace kvern::kernels::cpu {

// y[0, n) = op of the operands' elements; operands that an op has not are not read. y may be one of
// them.
using MapLoop = void (*)(const float* a, const float* b, const float* c, float* y, int64_t n);
using MapLoops = std::array<MapLoop, kNumMapOps>;  // by MapOp

// One loop per op, by libm.
const MapLoops& plain_map_loops();
// Ours of exp, tanh and sigmoid, libm's of what has no vector form here.
const MapLoops& avx2_map_loops();
const MapLoops& avx512_map_loops();

// The ops that avx2 and avx512 compute in vectors.
constexpr bool has_vector_form(MapOp op) {
  switch (op) {
    case MapOp::kPow:
    case MapOp::kLog:
    case MapOp::kErf:
    case MapOp::kSin:
    case MapOp::kCos:
      return false;
    default:
      return true;
  }
}

void run_map(const MapDesc& desc, const MapArgs& args, const MapLoops& loops);

}  // namespace kvern::kernels::cpu
