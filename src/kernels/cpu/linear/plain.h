// The plain linear: f32 inputs, weights dequantised to f32, one FMA per element in ascending K.
#pragma once

#include "kernels/cpu/pack/tile_layout.h"
#include "kernels/linear.h"

namespace kvern::kernels::cpu {

// What differs between instruction sets, all bit-equal: a lane is one output, whatever its width.
struct PlainKernels {
  // acc[m][lane] = fma(x[m][k], w[k][lane], acc[m][lane]) for k ascending.
  // w: [k, 16]; x: [rows, k], rows x_stride apart; acc: [rows, 16].
  void (*multiply)(const float* w, int64_t k, const float* x, int64_t x_stride, int64_t rows,
                   float* acc);
  // Steps [begin, end) of a tile as f32: to[k][16]. begin is a multiple of steps_per_group.
  void (*expand)(const QuantFormat& format, const TileLayout& layout, const std::byte* tile,
                 int64_t begin, int64_t end, float* to);
};

PlainKernels plain_kernels_baseline();
PlainKernels plain_kernels_avx2();
PlainKernels plain_kernels_avx512();

void run_linear_plain(const LinearDesc& desc, const LinearArgs& args);

}  // namespace kvern::kernels::cpu
