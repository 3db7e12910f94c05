#include <algorithm>
#include <cmath>

#include "kernels/cpu/linear/expand_f32.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels::cpu {
namespace {

void multiply(const float* w, int64_t k, const float* x, int64_t x_stride, int64_t rows,
              float* acc) {
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t i = 0; i < k; ++i) {
      const float value = x[m * x_stride + i];
      for (int64_t lane = 0; lane < kTileRows; ++lane) {
        acc[m * kTileRows + lane] =
            std::fma(value, w[i * kTileRows + lane], acc[m * kTileRows + lane]);
      }
    }
  }
}

void expand(const QuantFormat& format, const TileLayout& layout, const std::byte* tile,
            int64_t begin, int64_t end, float* to) {
  expand_f32(format, layout, tile, begin, end, to);
}

}  // namespace

PlainKernels plain_kernels_baseline() {
  return {multiply, expand};
}

}  // namespace kvern::kernels::cpu
