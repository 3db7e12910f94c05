#include "kernels/cpu/linear/bf16_few.h"

namespace kvern::kernels::cpu {

const Dots& few_i4(const LinearDesc& desc, int64_t tokens) {
  const int64_t i = tokens - 1;
  if (desc.scale == DType::kF32) {
    return desc.has_min ? kDots<I4Codes, DType::kF32, true>[i]
                        : kDots<I4Codes, DType::kF32, false>[i];
  }
  return desc.has_min ? kDots<I4Codes, DType::kF16, true>[i]
                      : kDots<I4Codes, DType::kF16, false>[i];
}

}  // namespace kvern::kernels::cpu
