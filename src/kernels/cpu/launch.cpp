#include "kernels/cpu/launch.h"

#include <algorithm>

namespace kvern::kernels::cpu {

void for_rows(device::Stream* stream, int64_t rows, int64_t ns_per_row,
              FunctionRef<void(int64_t begin, int64_t end)> fn) {
  constexpr int64_t kSerialNs = 20'000;
  constexpr int64_t kPieceNs = 10'000;
  if (rows <= 0) return;
  ThreadPool& pool = cpu_stream(stream).pool();
  const int64_t total_ns = rows * std::max<int64_t>(ns_per_row, 1);
  if (pool.num_threads() == 1 || total_ns < kSerialNs) {
    fn(0, rows);
    return;
  }
  const int64_t wanted = std::min<int64_t>(pool.num_threads() * 4, total_ns / kPieceNs);
  const int64_t pieces = std::clamp<int64_t>(wanted, 1, rows);
  pool.parallel_for(
      pieces, [&](int64_t piece, int) { fn(rows * piece / pieces, rows * (piece + 1) / pieces); });
}

}  // namespace kvern::kernels::cpu
