// Both sums have one order everywhere, so that all implementations share a numerics id: element i
// goes to lane i % 16, lanes are folded 8, 4, 2, 1; products and sums are rounded one by one.
#pragma once

#include "kernels/layer_norm.h"

namespace kvern::kernels::cpu {

void layer_norm_plain(const LayerNormDesc& desc, const LayerNormArgs& args);

Verdict supports_layer_norm_avx512(const LayerNormDesc& desc);
void layer_norm_avx512(const LayerNormDesc& desc, const LayerNormArgs& args);

Verdict supports_layer_norm_avx2(const LayerNormDesc& desc);
void layer_norm_avx2(const LayerNormDesc& desc, const LayerNormArgs& args);

}  // namespace kvern::kernels::cpu
