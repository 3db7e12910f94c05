// Writes one token's 16 outputs of a tile, less the rows beyond n, with the bias added.
#pragma once

#include "kernels/cpu/intrinsics.h"

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/pack.h"

namespace kvern::kernels::cpu {

[[gnu::target("avx512f"), gnu::always_inline]] inline void store_tile(const LinearDesc& desc,
                                                                      const LinearArgs& args,
                                                                      int64_t token, int64_t tile,
                                                                      __m512 value) {
  const int64_t n = tile * kTileRows;
  const int64_t lanes = std::min(kTileRows, desc.n - n);
  const auto mask = static_cast<__mmask16>((1u << lanes) - 1u);
  if (args.bias != nullptr) {
    value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, args.bias + n));
  }
  _mm512_mask_storeu_ps(args.y + token * args.y_stride + n, mask, value);
}

}  // namespace kvern::kernels::cpu
