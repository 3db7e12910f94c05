// One head turned by its token's angles. Products and differences are rounded one by one, in every
// implementation alike, so that all of them give the same bits.
#pragma once

#include <cstdint>

namespace kvern::kernels::cpu {

// x, y: [head_dim], y may be x; cos, sin: [rotary_dim / 2].
void turn_plain(const float* x, const float* cos, const float* sin, int64_t head_dim,
                int64_t rotary_dim, bool interleaved, float* y);
// Halves only.
void turn_halves_avx512(const float* x, const float* cos, const float* sin, int64_t head_dim,
                        int64_t rotary_dim, float* y);

}  // namespace kvern::kernels::cpu
