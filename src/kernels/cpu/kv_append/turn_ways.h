// Turns beyond those of kernels/cpu/rope/turn.h, with the bits of turn_plain: interleaved pairs,
// and both kinds by AVX2.
#pragma once

#include "kernels/cpu/rope/turn.h"

namespace kvern::kernels::cpu {

// x, y: [head_dim], y may be x; cos, sin: [rotary_dim / 2].
void turn_pairs_avx512(const float* x, const float* cos, const float* sin, int64_t head_dim,
                       int64_t rotary_dim, float* y);
void turn_halves_avx2(const float* x, const float* cos, const float* sin, int64_t head_dim,
                      int64_t rotary_dim, float* y);
void turn_pairs_avx2(const float* x, const float* cos, const float* sin, int64_t head_dim,
                     int64_t rotary_dim, float* y);

}  // namespace kvern::kernels::cpu
