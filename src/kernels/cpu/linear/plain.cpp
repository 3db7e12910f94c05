#include "kernels/cpu/linear/plain.h"

#include <algorithm>

#include "device/cpu/cpu_device.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kBlockK = 512;     // f32 weights of a tile: 32 KiB; a multiple of every group
constexpr int64_t kBlockRows = 256;  // sums of a tile: 16 KiB

PlainKernels pick() {
  const device::CpuFeatures& features = device::cpu_features();
  if (features.avx512) return plain_kernels_avx512();
  return features.avx2_fma ? plain_kernels_avx2() : plain_kernels_baseline();
}

// One tile of outputs for rows [first, last); `weights` and `sums` are the task's own scratch.
void run_tile(const LinearDesc& desc, const LinearArgs& args, const PlainKernels& kernels,
              int64_t tile, int64_t first, int64_t last, float* weights, float* sums) {
  const QuantFormat format = desc.format();
  const TileLayout layout = tile_layout(format, desc.k);
  const std::byte* packed = args.w + tile * layout.tile_bytes;
  const int64_t rows = last - first;
  std::fill_n(sums, rows * kTileRows, 0.0f);
  for (int64_t k = 0; k < desc.k; k += kBlockK) {
    const int64_t count = std::min(kBlockK, desc.k - k);
    const int64_t step = k / layout.step_elements;
    const float* w = reinterpret_cast<const float*>(packed + layout.codes_at(step));
    if (format.storage != DType::kF32) {
      kernels.expand(format, layout, packed, step, step + ceil_div(count, layout.step_elements),
                     weights);
      w = weights;
    }
    kernels.multiply(w, count, args.x + first * args.x_stride + k, args.x_stride, rows, sums);
  }
  const int64_t n = tile * kTileRows;
  const int64_t lanes = std::min(kTileRows, desc.n - n);
  for (int64_t m = 0; m < rows; ++m) {
    float* y = args.y + (first + m) * args.y_stride + n;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const float sum = sums[m * kTileRows + lane];
      y[lane] = args.bias != nullptr ? sum + args.bias[n + lane] : sum;
    }
  }
}

}  // namespace

// y[m,:] = x[m,:] w^T. Tasks are tiles of 16 outputs times blocks of rows; a tile's weights are
// dequantised once per block of rows.
void run_linear_plain(const LinearDesc& desc, const LinearArgs& args) {
  static const PlainKernels kernels = pick();
  device::CpuStream& stream = cpu_stream(args.stream);
  ThreadPool& pool = stream.pool();
  constexpr int64_t kScratchFloats = (kBlockK + kBlockRows) * kTileRows;
  auto* scratch = reinterpret_cast<float*>(
      stream.scratch(static_cast<size_t>(pool.num_threads() * kScratchFloats) * sizeof(float)));
  const int64_t tiles = ceil_div(desc.n, kTileRows);
  const int64_t blocks = ceil_div(args.rows, kBlockRows);
  pool.parallel_for(tiles * blocks, [&](int64_t task, int thread) {
    float* weights = scratch + thread * kScratchFloats;
    const int64_t first = task % blocks * kBlockRows;
    run_tile(desc, args, kernels, task / blocks, first, std::min(args.rows, first + kBlockRows),
             weights, weights + kBlockK * kTileRows);
  });
}

}  // namespace kvern::kernels::cpu
