#pragma once

#include <array>

#include "kernels/map.h"

namespace kvern::kernels::cpu {

// erf(x) = x * (a polynomial of x^2) for |x| < 0.5: its Taylor series, highest power first.
inline constexpr float kErfSeries[] = {1.2055332e-4f, -8.5483270e-4f, 5.2239776e-3f, -2.6866171e-2f,
                                       1.1283792e-1f, -3.7612639e-1f, 1.1283792f};

// y[0, n) = op of the operands' elements; operands that an op has not are not read. y may be one of
// them.
using MapLoop = void (*)(const float* a, const float* b, const float* c, float* y, int64_t n);
using MapLoops = std::array<MapLoop, kNumMapOps>;  // by MapOp

// One loop per op, by libm.
const MapLoops& plain_map_loops();
// Ours of exp, tanh, sigmoid and erf, libm's of what has no vector form here.
const MapLoops& avx2_map_loops();
const MapLoops& avx512_map_loops();

// The ops that avx2 and avx512 compute in vectors.
constexpr bool has_vector_form(MapOp op) {
  switch (op) {
    case MapOp::kPow:
    case MapOp::kLog:
    case MapOp::kSin:
    case MapOp::kCos:
      return false;
    default:
      return true;
  }
}

void run_map(const MapDesc& desc, const MapArgs& args, const MapLoops& loops);

}  // namespace kvern::kernels::cpu
