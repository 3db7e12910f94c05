// The sum of squares has one order everywhere, so that all implementations share a numerics id:
// element i goes to lane i % 16 by an unfused multiply and add, lanes are folded 8, 4, 2, 1.
#pragma once

#include "kernels/rms_norm.h"

namespace kvern::kernels::cpu {

void rms_norm_plain(const RmsNormDesc& desc, const RmsNormArgs& args);

Verdict supports_rms_norm_avx512(const RmsNormDesc& desc);
void rms_norm_avx512(const RmsNormDesc& desc, const RmsNormArgs& args);

Verdict supports_rms_norm_avx2(const RmsNormDesc& desc);
void rms_norm_avx2(const RmsNormDesc& desc, const RmsNormArgs& args);

}  // namespace kvern::kernels::cpu
