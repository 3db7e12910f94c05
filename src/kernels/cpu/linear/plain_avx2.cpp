#include <algorithm>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/expand_f32.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels::cpu {
namespace {

// 12 accumulators of 16 registers: a tile of 16 outputs times 6 rows of x.
template <int kRows>
[[gnu::target("avx2,fma")]] void multiply_rows(const float* w, int64_t k, const float* x,
                                               int64_t x_stride, float* acc) {
  __m256 low[kRows];
  __m256 high[kRows];
  for (int m = 0; m < kRows; ++m) {
    low[m] = _mm256_loadu_ps(acc + m * kTileRows);
    high[m] = _mm256_loadu_ps(acc + m * kTileRows + 8);
  }
  for (int64_t i = 0; i < k; ++i) {
    const __m256 w_low = _mm256_loadu_ps(w + i * kTileRows);
    const __m256 w_high = _mm256_loadu_ps(w + i * kTileRows + 8);
#pragma GCC unroll 6
    for (int m = 0; m < kRows; ++m) {
      const __m256 value = _mm256_broadcast_ss(x + m * x_stride + i);
      low[m] = _mm256_fmadd_ps(value, w_low, low[m]);
      high[m] = _mm256_fmadd_ps(value, w_high, high[m]);
    }
  }
  for (int m = 0; m < kRows; ++m) {
    _mm256_storeu_ps(acc + m * kTileRows, low[m]);
    _mm256_storeu_ps(acc + m * kTileRows + 8, high[m]);
  }
}

void multiply(const float* w, int64_t k, const float* x, int64_t x_stride, int64_t rows,
              float* acc) {
  int64_t m = 0;
  for (; m + 6 <= rows; m += 6) {
    multiply_rows<6>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
  for (; m + 2 <= rows; m += 2) {
    multiply_rows<2>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
  for (; m < rows; ++m) {
    multiply_rows<1>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
}

[[gnu::target("avx2,fma")]] void expand(const QuantFormat& format, const TileLayout& layout,
                                        const std::byte* tile, int64_t begin, int64_t end,
                                        float* to) {
  expand_f32(format, layout, tile, begin, end, to);
}

}  // namespace

PlainKernels plain_kernels_avx2() {
  return {multiply, expand};
}

}  // namespace kvern::kernels::cpu
