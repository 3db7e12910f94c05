#include <algorithm>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/rope/turn.h"

namespace kvern::kernels::cpu {

[[gnu::target("avx512f")]] void turn_halves_avx512(const float* x, const float* cos,
                                                   const float* sin, int64_t head_dim,
                                                   int64_t rotary_dim, float* y) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; i += 16) {
    const __mmask16 mask = first_lanes(half - i);
    const __m512 a = _mm512_maskz_loadu_ps(mask, x + i);
    const __m512 b = _mm512_maskz_loadu_ps(mask, x + half + i);
    const __m512 c = _mm512_maskz_loadu_ps(mask, cos + i);
    const __m512 s = _mm512_maskz_loadu_ps(mask, sin + i);
    _mm512_mask_storeu_ps(y + i, mask, _mm512_sub_ps(_mm512_mul_ps(a, c), _mm512_mul_ps(b, s)));
    _mm512_mask_storeu_ps(y + half + i, mask,
                          _mm512_add_ps(_mm512_mul_ps(b, c), _mm512_mul_ps(a, s)));
  }
  if (y != x) std::copy(x + rotary_dim, x + head_dim, y + rotary_dim);
}

}  // namespace kvern::kernels::cpu
