// Passes over one row of logits, at the rate of reads, on every instruction set with equal results.
//
// Why they are equal: an element's weight comes from separate multiplications, additions and
// conversions (no FMA, no library call), which IEEE 754 fixes; it is a multiple of 2^-33 and at
// most 1, so that sums of up to 2^20 of them are exact in double and their order does not matter.
// Weights below 2^-34 of the likeliest become 0: an error below V * 2^-34, 1.5e-5 for V = 262,144.
#pragma once

#include <cstdint>

namespace kvern::kernels::cpu {

// A row is seen as spans of 1,024 ids; lane l of a span holds its ids l, l + 16, l + 32, …
inline constexpr int64_t kSpanIds = 1024;
inline constexpr int64_t kLanes = 16;

inline constexpr double kWeightUnit = 0x1p-33;

struct RowOps {
  // maxima[span * kLanes + lane]: the largest of each lane, -infinity of none; gives the row's. NaN
  // never wins.
  float (*maxima)(const float* x, int64_t count, float* maxima);
  // weights[i] = exp((x[i] - max) * scale), x[i] <= max; 0 for NaN. max is finite.
  void (*weights)(const float* x, int64_t count, float max, float scale, float* weights);
  // Sums of the same weights by span, and of all.
  double (*masses)(const float* x, int64_t count, float max, float scale, double* masses);
};

// By what the processor offers: AVX-512, AVX2, or whatever every x86-64 has.
const RowOps& row_ops();
// All of them that this processor can run, for tests.
const RowOps* row_ops_named(const char* name);  // "avx512", "avx2", "plain"; null: cannot run

}  // namespace kvern::kernels::cpu
