// The products of staged splits: scores, and weighted sums of V.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/kv_attention/avx512.h"

namespace kvern::kernels::cpu::avx512 {
namespace {

template <QkInput kInput>
[[gnu::target("avx512f,avx512bf16"), gnu::always_inline]] inline __m512 dot_step(__m512 sum,
                                                                                 __m512 q,
                                                                                 __m512 k) {
  if constexpr (kInput == QkInput::kBf16) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(q), reinterpret_cast<__m512bh>(k));
  } else {
    return _mm512_fmadd_ps(q, k, sum);
  }
}

// kRows x kBlocks accumulators of 16 positions each; per step kBlocks loads and kRows broadcasts
// feed kRows * kBlocks dot products.
template <QkInput kInput, bool kScaled, int kRows, int kBlocks>
[[gnu::target("avx512f,avx512bf16")]] void qk(const QkBlock& b, int64_t block) {
  __m512 total[kRows][kBlocks];
  const float* k = b.k + block * b.steps * kLanes;
  const float* k_scale = kScaled ? b.k_scale + block * b.groups * kLanes : nullptr;
  for (int64_t g = 0; g < b.groups; ++g) {
    __m512 sum[kRows][kBlocks];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kBlocks; ++c) sum[r][c] = _mm512_setzero_ps();
    }
    const int64_t end = std::min((g + 1) * b.steps_per_group, b.steps);
    for (int64_t step = g * b.steps_per_group; step < end; ++step) {
      __m512 lanes[kBlocks];
#pragma GCC unroll 8
      for (int c = 0; c < kBlocks; ++c) {
        lanes[c] = _mm512_loadu_ps(k + (c * b.steps + step) * kLanes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512 q = _mm512_set1_ps(b.q[r * b.steps + step]);
#pragma GCC unroll 8
        for (int c = 0; c < kBlocks; ++c) sum[r][c] = dot_step<kInput>(sum[r][c], q, lanes[c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kBlocks; ++c) {
        if constexpr (kScaled) {
          const __m512 s = _mm512_loadu_ps(k_scale + (c * b.groups + g) * kLanes);
          total[r][c] =
              g == 0 ? _mm512_mul_ps(sum[r][c], s) : _mm512_fmadd_ps(sum[r][c], s, total[r][c]);
        } else {
          total[r][c] = sum[r][c];
        }
      }
    }
  }
  const __m512 scale = _mm512_set1_ps(b.scale);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kBlocks; ++c) {
      _mm512_storeu_ps(b.scores + r * kSplitTokens + (block + c) * kLanes,
                       _mm512_mul_ps(total[r][c], scale));
    }
  }
}

// Blocks of positions beside each other: enough sums to hide the latency of a product, at most 24
// of them in registers. Scaled scores keep two sums each.
template <bool kScaled>
constexpr int num_blocks(int rows) {
  const int sums = kScaled ? 2 * rows : rows;
  return sums <= 3 ? 8 : sums <= 6 ? 4 : 2;
}

using Qk = void (*)(const QkBlock& block, int64_t position_block);

template <QkInput kInput, bool kScaled, int... kRows>
constexpr std::array<Qk, kBlockRows> wide_table(std::integer_sequence<int, kRows...>) {
  return {qk<kInput, kScaled, kRows + 1, num_blocks<kScaled>(kRows + 1)>...};
}

template <QkInput kInput, bool kScaled, int... kRows>
constexpr std::array<Qk, kBlockRows> one_table(std::integer_sequence<int, kRows...>) {
  return {qk<kInput, kScaled, kRows + 1, 1>...};
}

template <QkInput kInput, bool kScaled>
void run_qk(const QkBlock& block, int64_t rows, int64_t begin, int64_t end) {
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  static constexpr auto kWide = wide_table<kInput, kScaled>(kRows);
  static constexpr auto kOne = one_table<kInput, kScaled>(kRows);
  const auto index = static_cast<size_t>(rows - 1);
  const int64_t wide = num_blocks<kScaled>(static_cast<int>(rows));
  for (; begin + wide <= end; begin += wide) kWide[index](block, begin);
  for (; begin < end; ++begin) kOne[index](block, begin);
}

// kRows x 16 * kVectors columns, from `column` on.
template <int kRows, int kVectors>
[[gnu::target("avx512f")]] void pv(const PvBlock& b, int64_t column) {
  const float* v = b.v + column;
  float* out = b.out + column;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      sum[r][c] = _mm512_loadu_ps(out + r * b.padded_dim + c * kLanes);
    }
  }
  for (int64_t p = b.begin; p < b.end; ++p) {
    __m512 row[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) row[c] = _mm512_loadu_ps(v + p * b.padded_dim + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(b.weights[r * kSplitTokens + p]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_fmadd_ps(weight, row[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      _mm512_storeu_ps(out + r * b.padded_dim + c * kLanes, sum[r][c]);
    }
  }
}

using Pv = void (*)(const PvBlock& block, int64_t column);

template <int kVectors, int... kRows>
constexpr std::array<Pv, kBlockRows> pv_table(std::integer_sequence<int, kRows...>) {
  return {pv<kRows + 1, kVectors>...};
}

}  // namespace

void qk_block(QkInput input, const QkBlock& block, int64_t rows, int64_t begin, int64_t end) {
  if (input == QkInput::kF32) return run_qk<QkInput::kF32, false>(block, rows, begin, end);
  if (block.k_scale == nullptr) return run_qk<QkInput::kBf16, false>(block, rows, begin, end);
  run_qk<QkInput::kBf16, true>(block, rows, begin, end);
}

void pv_block(const PvBlock& block, int64_t rows) {
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  static constexpr std::array<std::array<Pv, kBlockRows>, 4> kTables = {
      pv_table<1>(kRows), pv_table<2>(kRows), pv_table<3>(kRows), pv_table<4>(kRows)};
  const auto index = static_cast<size_t>(rows - 1);
  for (int64_t column = 0; column < block.padded_dim; column += 4 * kLanes) {
    const int64_t vectors = std::min<int64_t>((block.padded_dim - column) / kLanes, 4);
    kTables[static_cast<size_t>(vectors - 1)][index](block, column);
  }
}

}  // namespace kvern::kernels::cpu::avx512
