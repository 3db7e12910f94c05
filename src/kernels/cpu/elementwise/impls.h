#pragma once

#include "kernels/elementwise.h"

namespace kvern::kernels::cpu {

void elementwise_plain(const ElementwiseDesc& desc, const ElementwiseArgs& args);

Verdict supports_elementwise_avx512(const ElementwiseDesc& desc);
void elementwise_avx512(const ElementwiseDesc& desc, const ElementwiseArgs& args);

Verdict supports_elementwise_avx2(const ElementwiseDesc& desc);
void elementwise_avx2(const ElementwiseDesc& desc, const ElementwiseArgs& args);

}  // namespace kvern::kernels::cpu
