// f32 rows into a storage format. Scales and minima are rounded first and codes are computed with
// the rounded ones, so that a code is the nearest to what will be read back.
#pragma once

#include <string>

#include "kernels/pack.h"

namespace kvern::quantize {

// Writes row `row` of `to`, whose format, n and k are set and whose vectors have their sizes.
// x: [k]. Throws Error(kInvalidModel) naming `weight` where a value is NaN, infinite or beyond the
// format.
void quantize_row(const float* x, int64_t row, const std::string& weight, kernels::CodedRows& to);

// Sizes the vectors of `to` for its format, n and k.
void allocate(kernels::CodedRows& to);

// to[i] = scale * code (+ min) in f32, one rounding each. minima: nullptr where the format has
// none.
void apply_scales(const int8_t* codes, const float* scales, const float* minima, int64_t k,
                  int64_t group, float* to);

// Row `row` as f32.
void dequantize_row(const kernels::CodedRows& from, int64_t row, float* to);

// A scale or minimum as the format keeps it, in f32.
float round_scale(float value, DType scale);

}  // namespace kvern::quantize
