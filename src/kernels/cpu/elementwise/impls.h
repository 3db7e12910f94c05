#pragma once

#include "kernels/elementwise.h"

namespace kvern::kernels::cpu {

// erfc(z) = t exp(-z^2 + p(t)), t = 1 / (1 + z / 2), z >= 0: within 1.2e-7 of the value everywhere
// (Chebyshev fit of Press et al., Numerical Recipes, "erfcc"). p from t^9 down to t^0.
inline constexpr float kErfcFit[] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f,
                                     0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f,
                                     1.00002368f, -1.26551223f};

void elementwise_plain(const ElementwiseDesc& desc, const ElementwiseArgs& args);

Verdict supports_elementwise_avx512(const ElementwiseDesc& desc);
void elementwise_avx512(const ElementwiseDesc& desc, const ElementwiseArgs& args);

Verdict supports_elementwise_avx2(const ElementwiseDesc& desc);
void elementwise_avx2(const ElementwiseDesc& desc, const ElementwiseArgs& args);

}  // namespace kvern::kernels::cpu
