// Writes one token's 16 outputs of a tile, less the rows beyond n, with the bias added.
#pragma once

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/pack.h"

namespace kvern::kernels::cpu {

[[gnu::always_inline]] inline void store_lanes(const LinearDesc& desc, const LinearArgs& args,
                                               int64_t token, int64_t tile, const float* values) {
  const int64_t n = tile * kTileRows;
  const int64_t lanes = std::min(kTileRows, desc.n - n);
  float* y = args.y + token * args.y_stride + n;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    y[lane] = args.bias != nullptr ? values[lane] + args.bias[n + lane] : values[lane];
  }
}

}  // namespace kvern::kernels::cpu
