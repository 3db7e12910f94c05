#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/fma.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int kBlockTokens = 12;  // as many sums: 4 cycles of an FMA, two of them per cycle

// As in fma_avx2.cpp, lane by lane the same.
template <int kTokens>
[[gnu::target("avx512f")]] void multiply(const FmaStretch& stretch) {
  const FmaStretch s = stretch;
  const bool carry = s.scales == nullptr;
  for (int64_t begin = 0, g = 0; begin < s.k; begin += s.group_k, ++g) {
    __m512 sum[kTokens];
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      const float start = s.start != 0.0f ? s.start * s.xsums[g * kTokens + t] : 0.0f;
      sum[t] = carry ? _mm512_load_ps(s.y + t * kTileRows) : _mm512_set1_ps(start);
    }
    const int64_t end = std::min(s.k, begin + s.group_k);
    for (int64_t k = begin; k < end; ++k) {
      const __m512 w = _mm512_load_ps(s.w + k * kTileRows);
#pragma GCC unroll 12
      for (int t = 0; t < kTokens; ++t) {
        sum[t] = _mm512_fmadd_ps(w, _mm512_set1_ps(s.x[k * kTokens + t]), sum[t]);
      }
    }
    const float* plane = carry ? s.w : s.scales + g * kTileRows;
    const __m512 scale = _mm512_load_ps(plane);
    const __m512 min = s.minima == nullptr ? scale : _mm512_load_ps(s.minima + g * kTileRows);
#pragma GCC unroll 12
    for (int t = 0; t < kTokens; ++t) {
      float* y = s.y + t * kTileRows;
      if (!carry) {
        sum[t] = _mm512_fmadd_ps(scale, sum[t], _mm512_load_ps(y));
        if (s.minima != nullptr) {
          sum[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(s.xsums[g * kTokens + t]), sum[t]);
        }
      }
      _mm512_store_ps(y, sum[t]);
    }
  }
}

template <size_t... kIndex>
constexpr auto by_tokens(std::index_sequence<kIndex...>) {
  return std::array<FmaMultiply, sizeof...(kIndex)>{multiply<static_cast<int>(kIndex) + 1>...};
}
constexpr auto kMultiply = by_tokens(std::make_index_sequence<kBlockTokens>());

}  // namespace

FmaWidth fma_width_avx512() {
  return {kBlockTokens, kMultiply.data()};
}

}  // namespace kvern::kernels::cpu
