#include <algorithm>

#include "kernels/cpu/rope/turn.h"

namespace kvern::kernels::cpu {

void turn_plain(const float* x, const float* cos, const float* sin, int64_t head_dim,
                int64_t rotary_dim, bool interleaved, float* y) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = interleaved ? 2 * i : i;
    const int64_t second = interleaved ? 2 * i + 1 : i + half;
    const float a = x[first];
    const float b = x[second];
    y[first] = a * cos[i] - b * sin[i];
    y[second] = b * cos[i] + a * sin[i];
  }
  if (y != x) std::copy(x + rotary_dim, x + head_dim, y + rotary_dim);
}

}  // namespace kvern::kernels::cpu
