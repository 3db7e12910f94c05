// One pass over a row in sixteen lanes, folded 8, 4, 2, 1: plain loops that compilers vectorise, in
// one order for every instruction set.
#include "kernels/row_reduce.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/launch.h"

namespace kvern::kernels {
namespace {

constexpr int64_t kLanes = 16;

// fold of f(x[i]) over [0, n), begun with `start`.
template <class F, class Fold>
float reduce(const float* x, int64_t n, float start, F f, Fold fold) {
  float lane[kLanes];
  std::fill_n(lane, kLanes, start);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = fold(lane[l], f(x[i + l]));
  }
  for (int64_t l = 0; i + l < n; ++l) lane[l] = fold(lane[l], f(x[i + l]));
  for (int64_t width = kLanes / 2; width >= 1; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lane[l] = fold(lane[l], lane[l + width]);
  }
  return lane[0];
}

float reduce_group(ReduceKind kind, const float* x, int64_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto same = [](float a) { return a; };
  const auto square = [](float a) { return a * a; };
  const auto add = [](float a, float b) { return a + b; };
  const auto count = static_cast<float>(n);
  switch (kind) {
    case ReduceKind::kSum:
      return reduce(x, n, 0.0f, same, add);
    case ReduceKind::kMean:
      return reduce(x, n, 0.0f, same, add) / count;
    case ReduceKind::kMeanSquare:
      return reduce(x, n, 0.0f, square, add) / count;
    // A NaN that comes is taken, and stays only while nothing greater follows it in its lane.
    case ReduceKind::kMax:
      return reduce(x, n, -kInfinity, same, [](float a, float b) { return b <= a ? a : b; });
    case ReduceKind::kMin:
      break;
  }
  return reduce(x, n, kInfinity, same, [](float a, float b) { return b >= a ? a : b; });
}

// Moves 4 * dim bytes per row.
void run_row_reduce(const RowReduceDesc& desc, const RowReduceArgs& args) {
  const int64_t width = desc.dim / desc.groups;
  cpu::for_rows(args.stream, args.rows, desc.dim / 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = args.x + r * args.x_stride;
      float* y = args.y + r * args.y_stride;
      for (int64_t g = 0; g < desc.groups; ++g) {
        y[g] = reduce_group(desc.kind, x + g * width, width);
      }
    }
  });
}

constexpr Impl<RowReduceDesc, RowReduceArgs> kRowReduceCpu[] = {
    {"cpu.row_reduce.plain", "f32.lanes16", cpu::supports_any, run_row_reduce},
};

}  // namespace

std::span<const Impl<RowReduceDesc, RowReduceArgs>> RowReduceFamily::table() {
  return kRowReduceCpu;
}

}  // namespace kvern::kernels
