// The products: scores, and weighted sums of V staged or straight from its pages. Two vectors by
// six rows keep 12 of the 16 registers in sums.
#include <algorithm>
#include <utility>

#include "kernels/cpu/kv_attention/avx2.h"
#include "kernels/cpu/kv_attention/avx2_load.h"

namespace kvern::kernels::cpu::avx2 {
namespace {

// kBlocks blocks of positions beside each other: one or two rows alone have too few sums to hide
// the latency of an FMA.
template <int kRows, int kBlocks>
[[gnu::target("avx2,fma")]] void qk(const QkBlock& b, int64_t block) {
  constexpr int kVectors = 2 * kBlocks;
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm256_setzero_ps();
  }
  const float* k = b.k + block * b.steps * kLanes;
  for (int64_t step = 0; step < b.steps; ++step) {
    __m256 lanes[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      lanes[c] = _mm256_loadu_ps(k + (c / 2 * b.steps + step) * kLanes + c % 2 * kHalf);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256 q = _mm256_broadcast_ss(b.q + r * b.steps + step);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm256_fmadd_ps(q, lanes[c], sum[r][c]);
    }
  }
  const __m256 scale = _mm256_set1_ps(b.scale);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* scores = b.scores + r * kSplitTokens + block * kLanes;
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) {
      _mm256_storeu_ps(scores + c * kHalf, _mm256_mul_ps(sum[r][c], scale));
    }
  }
}

constexpr int num_blocks(int rows) {
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

template <int kRows>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void weigh_one(__m256 (&sum)[kRows][2],
                                                                      const float* weights,
                                                                      __m256 low, __m256 high) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const __m256 weight = _mm256_broadcast_ss(weights + r * kSplitTokens);
    sum[r][0] = _mm256_fmadd_ps(weight, low, sum[r][0]);
    sum[r][1] = _mm256_fmadd_ps(weight, high, sum[r][1]);
  }
}

template <int kRows>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline void store_sums(
    const __m256 (&sum)[kRows][2], int64_t padded_dim, float* out) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    _mm256_storeu_ps(out + r * padded_dim, sum[r][0]);
    _mm256_storeu_ps(out + r * padded_dim + kHalf, sum[r][1]);
  }
}

template <int kRows>
[[gnu::target("avx2,fma")]] void pv(const PvBlock& b, int64_t column) {
  const float* v = b.v + column;
  float* out = b.out + column;
  __m256 sum[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = _mm256_loadu_ps(out + r * b.padded_dim);
    sum[r][1] = _mm256_loadu_ps(out + r * b.padded_dim + kHalf);
  }
  for (int64_t p = b.begin; p < b.end; ++p) {
    const float* row = v + p * b.padded_dim;
    weigh_one(sum, b.weights + p, _mm256_loadu_ps(row), _mm256_loadu_ps(row + kHalf));
  }
  store_sums(sum, b.padded_dim, out);
}

// Columns [column, column + 16) of positions [begin, end), some of them beyond the head unless
// kWhole. Positions go by stretches, as in avx512_direct.cpp.
template <DType kStorage, bool kWhole, int kRows>
[[gnu::target("avx2,fma,f16c")]] void weigh(const PvDirect& d, int64_t column, int64_t begin,
                                            int64_t end) {
  float* out = d.out + column;
  __m256 sum[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    sum[r][0] = _mm256_loadu_ps(out + r * d.padded_dim);
    sum[r][1] = _mm256_loadu_ps(out + r * d.padded_dim + kHalf);
  }
  const int64_t group = column / d.range.group;
  const int64_t left = kWhole ? kLanes : d.range.dim - column;
  const int64_t byte = column * kCodeBytes<kStorage>;
  const int64_t asked = byte % 64 == 0 ? d.from.ahead_end - kAheadTokens : 0;  // a line once
  for (int64_t p = begin; p < end; ++p) {
    if (p < asked) __builtin_prefetch(d.from.v[p + kAheadTokens] + byte, 0, 1);
    const std::byte* codes = d.from.v[p];
    const float* scale = d.from.v_scale + p * d.from.v_groups + group;  // groups: multiples of 16
    weigh_one(sum, d.weights + p, load8<kStorage>(codes, scale, column, left),
              load8<kStorage>(codes, scale, column + kHalf, left - kHalf));
  }
  store_sums(sum, d.padded_dim, out);
}

template <DType kStorage, int... kRows>
void weigh_all(const PvDirect& d, int64_t rows, std::integer_sequence<int, kRows...>) {
  using Weigh = void (*)(const PvDirect& direct, int64_t column, int64_t begin, int64_t end);
  static constexpr Weigh kWhole[] = {weigh<kStorage, true, kRows + 1>...};
  static constexpr Weigh kTail[] = {weigh<kStorage, false, kRows + 1>...};
  std::fill_n(d.out, rows * d.padded_dim, 0.0f);
  for (int64_t begin = d.from.begin; begin < d.from.end;) {
    const int64_t end = std::min((begin / kAheadTokens + 1) * kAheadTokens, d.from.end);
    int64_t column = 0;
    for (; column + kLanes <= d.range.dim; column += kLanes) {
      kWhole[rows - 1](d, column, begin, end);
    }
    if (column < d.range.dim) kTail[rows - 1](d, column, begin, end);
    begin = end;
  }
}

template <int... kRows>
void run_qk(const QkBlock& block, int64_t rows, int64_t begin, int64_t end,
            std::integer_sequence<int, kRows...>) {
  using Qk = void (*)(const QkBlock& block, int64_t position_block);
  static constexpr Qk kWide[] = {qk<kRows + 1, num_blocks(kRows + 1)>...};
  static constexpr Qk kOne[] = {qk<kRows + 1, 1>...};
  const int64_t wide = num_blocks(static_cast<int>(rows));
  for (; begin + wide <= end; begin += wide) kWide[rows - 1](block, begin);
  for (; begin < end; ++begin) kOne[rows - 1](block, begin);
}

template <int... kRows>
void run_pv(const PvBlock& block, int64_t rows, std::integer_sequence<int, kRows...>) {
  static constexpr void (*kTable[])(const PvBlock&, int64_t) = {pv<kRows + 1>...};
  for (int64_t column = 0; column < block.padded_dim; column += kLanes) {
    kTable[rows - 1](block, column);
  }
}

constexpr auto kAllRows = std::make_integer_sequence<int, kBlockRows>();

}  // namespace

void qk_block(QkInput, const QkBlock& block, int64_t rows, int64_t begin, int64_t end) {
  run_qk(block, rows, begin, end, kAllRows);
}

void pv_block(const PvBlock& block, int64_t rows) {
  run_pv(block, rows, kAllRows);
}

void pv_direct(const PvDirect& direct, int64_t rows) {
  switch (direct.range.storage) {
    case DType::kF32:
      return weigh_all<DType::kF32>(direct, rows, kAllRows);
    case DType::kF16:
      return weigh_all<DType::kF16>(direct, rows, kAllRows);
    case DType::kBf16:
      return weigh_all<DType::kBf16>(direct, rows, kAllRows);
    case DType::kI8:
      return weigh_all<DType::kI8>(direct, rows, kAllRows);
    default:
      return weigh_all<DType::kF8E4M3>(direct, rows, kAllRows);
  }
}

}  // namespace kvern::kernels::cpu::avx2
