#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/fma.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int kBlockTokens = 6;  // 12 sums, 2 of weights and an input: 15 of 16 registers

// Sums of kTokens x 16 outputs over a stretch. Outputs so far wait in L1 between groups.
template <int kTokens>
[[gnu::target("avx2,fma")]] void multiply(const FmaStretch& stretch) {
  const FmaStretch s = stretch;
  const bool carry = s.scales == nullptr;
  for (int64_t begin = 0, g = 0; begin < s.k; begin += s.group_k, ++g) {
    __m256 sum[2 * kTokens];
#pragma GCC unroll 12
    for (int i = 0; i < 2 * kTokens; ++i) {
      const float start = s.start != 0.0f ? s.start * s.xsums[g * kTokens + i / 2] : 0.0f;
      sum[i] = carry ? _mm256_load_ps(s.y + 8 * i) : _mm256_set1_ps(start);
    }
    const int64_t end = std::min(s.k, begin + s.group_k);
    for (int64_t k = begin; k < end; ++k) {
      const __m256 w0 = _mm256_load_ps(s.w + k * kTileRows);
      const __m256 w1 = _mm256_load_ps(s.w + k * kTileRows + 8);
#pragma GCC unroll 6
      for (int t = 0; t < kTokens; ++t) {
        const __m256 x = _mm256_broadcast_ss(s.x + k * kTokens + t);
        sum[2 * t] = _mm256_fmadd_ps(w0, x, sum[2 * t]);
        sum[2 * t + 1] = _mm256_fmadd_ps(w1, x, sum[2 * t + 1]);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < 2 * kTokens; ++i) {
      if (!carry) {
        const int64_t lane = g * kTileRows + 8 * (i % 2);
        sum[i] =
            _mm256_fmadd_ps(_mm256_load_ps(s.scales + lane), sum[i], _mm256_load_ps(s.y + 8 * i));
        if (s.minima != nullptr) {
          sum[i] = _mm256_fmadd_ps(_mm256_load_ps(s.minima + lane),
                                   _mm256_broadcast_ss(s.xsums + g * kTokens + i / 2), sum[i]);
        }
      }
      _mm256_store_ps(s.y + 8 * i, sum[i]);
    }
  }
}

template <size_t... kIndex>
constexpr auto by_tokens(std::index_sequence<kIndex...>) {
  return std::array<FmaMultiply, sizeof...(kIndex)>{multiply<static_cast<int>(kIndex) + 1>...};
}
constexpr auto kMultiply = by_tokens(std::make_index_sequence<kBlockTokens>());

}  // namespace

FmaWidth fma_width_avx2() {
  return {kBlockTokens, kMultiply.data()};
}

}  // namespace kvern::kernels::cpu
