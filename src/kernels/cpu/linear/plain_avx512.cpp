#include <algorithm>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/expand_f32.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels::cpu {
namespace {

template <int kRows>
[[gnu::target("avx512f")]] void multiply_rows(const float* w, int64_t k, const float* x,
                                              int64_t x_stride, float* acc) {
  __m512 sum[kRows];
  for (int m = 0; m < kRows; ++m) sum[m] = _mm512_loadu_ps(acc + m * kTileRows);
  for (int64_t i = 0; i < k; ++i) {
    const __m512 line = _mm512_loadu_ps(w + i * kTileRows);
#pragma GCC unroll 12
    for (int m = 0; m < kRows; ++m) {
      sum[m] = _mm512_fmadd_ps(_mm512_set1_ps(x[m * x_stride + i]), line, sum[m]);
    }
  }
  for (int m = 0; m < kRows; ++m) _mm512_storeu_ps(acc + m * kTileRows, sum[m]);
}

void multiply(const float* w, int64_t k, const float* x, int64_t x_stride, int64_t rows,
              float* acc) {
  int64_t m = 0;
  for (; m + 8 <= rows; m += 8) {
    multiply_rows<8>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
  for (; m + 2 <= rows; m += 2) {
    multiply_rows<2>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
  for (; m < rows; ++m) {
    multiply_rows<1>(w, k, x + m * x_stride, x_stride, acc + m * kTileRows);
  }
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void expand(const QuantFormat& format,
                                                                  const TileLayout& layout,
                                                                  const std::byte* tile,
                                                                  int64_t begin, int64_t end,
                                                                  float* to) {
  expand_f32(format, layout, tile, begin, end, to);
}

}  // namespace

PlainKernels plain_kernels_avx512() {
  return {multiply, expand};
}

}  // namespace kvern::kernels::cpu
