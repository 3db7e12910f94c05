#include "kernels/cpu/kv_attention/avx512_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/avx512_math.h"

namespace kvern::kernels::cpu {
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
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kBlocks; ++c) sum[r][c] = _mm512_setzero_ps();
    }
    const int64_t end = std::min((g + 1) * b.steps_per_group, b.steps);
    for (int64_t step = g * b.steps_per_group; step < end; ++step) {
      __m512 lanes[kBlocks];
      for (int c = 0; c < kBlocks; ++c) {
        lanes[c] = _mm512_loadu_ps(k + (c * b.steps + step) * kLanes);
      }
      for (int r = 0; r < kRows; ++r) {
        const __m512 q = _mm512_set1_ps(b.q[r * b.steps + step]);
        for (int c = 0; c < kBlocks; ++c) sum[r][c] = dot_step<kInput>(sum[r][c], q, lanes[c]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
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
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kBlocks; ++c) {
      _mm512_storeu_ps(b.scores + r * kSplitTokens + (block + c) * kLanes,
                       _mm512_mul_ps(total[r][c], scale));
    }
  }
}

using Qk = void (*)(const QkBlock& block, int64_t position_block);

template <QkInput kInput, bool kScaled, int kBlocks, int... kRows>
constexpr std::array<Qk, kBlockRows> qk_table(std::integer_sequence<int, kRows...>) {
  return {qk<kInput, kScaled, kRows + 1, kBlocks>...};
}

template <QkInput kInput, bool kScaled>
void run_qk(const QkBlock& block, int64_t rows, int64_t begin, int64_t end) {
  // Scaled sums keep two accumulators per score: half the width, or they spill.
  constexpr int kWide = kScaled ? 2 : 4;
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  static constexpr auto kWideTable = qk_table<kInput, kScaled, kWide>(kRows);
  static constexpr auto kOneTable = qk_table<kInput, kScaled, 1>(kRows);
  const auto index = static_cast<size_t>(rows - 1);
  for (; begin + kWide <= end; begin += kWide) kWideTable[index](block, begin);
  for (; begin < end; ++begin) kOneTable[index](block, begin);
}

template <int kRows, int kVectors>
[[gnu::target("avx512f")]] void pv(const float* weights, const float* v, int64_t padded_dim,
                                   int64_t begin, int64_t end, float* out) {
  __m512 sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      sum[r][c] = _mm512_loadu_ps(out + r * padded_dim + c * kLanes);
    }
  }
  for (int64_t p = begin; p < end; ++p) {
    __m512 row[kVectors];
    for (int c = 0; c < kVectors; ++c) row[c] = _mm512_loadu_ps(v + p * padded_dim + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(weights[r * kSplitTokens + p]);
      for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_fmadd_ps(weight, row[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) {
      _mm512_storeu_ps(out + r * padded_dim + c * kLanes, sum[r][c]);
    }
  }
}

using Pv = void (*)(const float* weights, const float* v, int64_t padded_dim, int64_t begin,
                    int64_t end, float* out);

template <int kVectors, int... kRows>
constexpr std::array<Pv, kBlockRows> pv_table(std::integer_sequence<int, kRows...>) {
  return {pv<kRows + 1, kVectors>...};
}

// exp of one value by the vector form, so that a row has one exp throughout.
[[gnu::target("avx512f")]] float exp_one(float x) {
  return _mm512_cvtss_f32(exp_f32(_mm512_set1_ps(x)));
}

}  // namespace

void qk_block(QkInput input, const QkBlock& block, int64_t rows, int64_t begin, int64_t end) {
  if (input == QkInput::kF32) return run_qk<QkInput::kF32, false>(block, rows, begin, end);
  if (block.k_scale == nullptr) return run_qk<QkInput::kBf16, false>(block, rows, begin, end);
  run_qk<QkInput::kBf16, true>(block, rows, begin, end);
}

[[gnu::target("avx512f,avx512dq")]] RowTotal softmax_row(float* scores, int64_t begin,
                                                         int64_t end) {
  const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 largest = lowest;
  const int64_t first = begin / kLanes * kLanes;
  for (int64_t i = first; i < end; i += kLanes) {
    const __mmask16 seen = first_lanes(end - i) & static_cast<__mmask16>(~first_lanes(begin - i));
    largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, seen, scores + i));
  }
  RowTotal total;
  total.max = _mm512_reduce_max_ps(largest);
  const __m512 max = _mm512_set1_ps(total.max);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = first; i < end; i += kLanes) {
    const __mmask16 seen = first_lanes(end - i) & static_cast<__mmask16>(~first_lanes(begin - i));
    const __m512 score = _mm512_mask_loadu_ps(lowest, seen, scores + i);
    const __m512 weight = _mm512_maskz_mov_ps(seen, exp_f32(_mm512_sub_ps(score, max)));
    _mm512_storeu_ps(scores + i, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  total.sum = fold_lanes(sum);
  return total;
}

void pv_block(const float* weights, const float* v, int64_t padded_dim, int64_t rows, int64_t begin,
              int64_t end, float* out) {
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  static constexpr std::array<std::array<Pv, kBlockRows>, 4> kTables = {
      pv_table<1>(kRows), pv_table<2>(kRows), pv_table<3>(kRows), pv_table<4>(kRows)};
  const auto index = static_cast<size_t>(rows - 1);
  for (int64_t column = 0; column < padded_dim; column += 4 * kLanes) {
    const int64_t vectors = std::min<int64_t>((padded_dim - column) / kLanes, 4);
    kTables[static_cast<size_t>(vectors - 1)][index](weights, v + column, padded_dim, begin, end,
                                                     out + column);
  }
}

[[gnu::target("avx512f")]] void combine_row(RowTotal& total, float* out, const RowTotal& part,
                                            const float* part_out, int64_t padded_dim) {
  if (part.sum == 0.0f) return;
  if (total.sum == 0.0f) {
    total = part;
    std::memcpy(out, part_out, static_cast<size_t>(padded_dim) * sizeof(float));
    return;
  }
  const float max = std::max(total.max, part.max);
  const float keep = exp_one(total.max - max);
  const float take = exp_one(part.max - max);
  const __m512 keep_lanes = _mm512_set1_ps(keep);
  const __m512 take_lanes = _mm512_set1_ps(take);
  for (int64_t i = 0; i < padded_dim; i += kLanes) {
    const __m512 kept = _mm512_mul_ps(_mm512_loadu_ps(out + i), keep_lanes);
    _mm512_storeu_ps(out + i, _mm512_fmadd_ps(_mm512_loadu_ps(part_out + i), take_lanes, kept));
  }
  total.sum = total.sum * keep + part.sum * take;
  total.max = max;
}

[[gnu::target("avx512f")]] void finish_row(const RowTotal& total, const float* out, int64_t dim,
                                           float* y) {
  const __m512 sum = _mm512_set1_ps(total.sum);
  for (int64_t i = 0; i < dim; i += kLanes) {
    _mm512_mask_storeu_ps(y + i, first_lanes(dim - i),
                          _mm512_div_ps(_mm512_loadu_ps(out + i), sum));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl")]] void stage_q(QkInput input, const float* q,
                                                          int64_t dim, float* to) {
  if (input == QkInput::kF32) {
    std::memcpy(to, q, static_cast<size_t>(dim) * sizeof(float));
    return;
  }
  auto* pairs = reinterpret_cast<std::byte*>(to);
  if (dim % 2 != 0) std::memset(to + dim / 2, 0, sizeof(float));
  for (int64_t i = 0; i < dim; i += kLanes) {
    const __mmask16 mask = first_lanes(dim - i);
    _mm256_mask_storeu_epi16(pairs + 2 * i, mask, bf16_bits(_mm512_maskz_loadu_ps(mask, q + i)));
  }
}

}  // namespace kvern::kernels::cpu
