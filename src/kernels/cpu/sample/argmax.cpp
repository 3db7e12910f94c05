#include <limits>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/launch.h"
#include "kernels/sample.h"

namespace kvern::kernels {
namespace {

int32_t argmax_plain(const float* x, int64_t count) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (x[i] == x[i] && (best < 0 || x[i] > x[best])) best = i;
  }
  return best < 0 ? 0 : static_cast<int32_t>(best);
}

// The largest value first (NaN loses every max), then its first place: both at the rate of reads.
[[gnu::target("avx512f")]] int32_t argmax_avx512(const float* x, int64_t count) {
  __m512 largest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) largest = _mm512_max_ps(_mm512_loadu_ps(x + i), largest);
  float top = _mm512_reduce_max_ps(largest);
  for (int64_t j = i; j < count; ++j) top = x[j] > top ? x[j] : top;
  const __m512 tops = _mm512_set1_ps(top);
  for (i = 0; i + 16 <= count; i += 16) {
    const __mmask16 equal = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), tops, _CMP_EQ_OQ);
    if (equal != 0) return static_cast<int32_t>(i + __builtin_ctz(equal));
  }
  for (; i < count; ++i) {
    if (x[i] == top) return static_cast<int32_t>(i);
  }
  return 0;  // nothing but NaN
}

}  // namespace

void argmax_cpu(const ArgmaxArgs& args) {
  const bool wide = device::cpu_features().avx512;
  cpu::for_rows(args.stream, args.rows, args.vocabulary / 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = args.logits + r * args.stride;
      args.ids[r] = wide ? argmax_avx512(row, args.vocabulary) : argmax_plain(row, args.vocabulary);
    }
  });
}

}  // namespace kvern::kernels
