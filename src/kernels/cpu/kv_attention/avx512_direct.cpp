// Weighing V straight from its pages: a tile of one token reads each row of V once, so that staging
// it in f32 first costs as much as using it.
#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/kv_attention/avx512.h"
#include "kernels/cpu/kv_attention/avx512_load.h"

namespace kvern::kernels::cpu::avx512 {
namespace {

// Columns are taken some at a time; a stretch of positions is walked for all of them before the
// next, so that what one strip of columns asks for has come when the stretch ahead is walked.
inline constexpr int64_t kStretch = kAheadTokens;

// Columns [column, column + 16 * kVectors) of positions [begin, end): the FMAs of pv_block over a
// staged V, in its order.
template <DType kStorage, int kRows, int kVectors>
[[gnu::target("avx512f,avx512bw,avx512vl")]] void weigh(const PvDirect& d, int64_t column,
                                                        int64_t begin, int64_t end) {
  float* out = d.out + column;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int c = 0; c < kVectors; ++c) {
      sum[r][c] = _mm512_loadu_ps(out + r * d.padded_dim + c * kLanes);
    }
  }
  const __mmask16 mask = kVectors > 1 ? __mmask16{0xffff} : first_lanes(d.range.dim - column);
  constexpr int64_t kBytes = kCodeBytes<kStorage>;
  constexpr int64_t kStripBytes = kVectors * kLanes * kBytes;
  int64_t group[kVectors];
#pragma GCC unroll 6
  for (int c = 0; c < kVectors; ++c) group[c] = (column + c * kLanes) / d.range.group;
  for (int64_t p = begin; p < end; ++p) {
    if (p + kAheadTokens < d.from.ahead_end) {
      const std::byte* ahead = d.from.v[p + kAheadTokens] + column * kBytes;
#pragma GCC unroll 4
      for (int64_t byte = 0; byte < kStripBytes; byte += 64) {
        __builtin_prefetch(ahead + byte, 0, 1);
      }
    }
    const float* scales = d.from.v_scale + p * d.from.v_groups;
    __m512 row[kVectors];
#pragma GCC unroll 6
    for (int c = 0; c < kVectors; ++c) {
      row[c] = load16<kStorage>(d.from.v[p], scales + group[c], column + c * kLanes, mask);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(d.weights[r * kSplitTokens + p]);
#pragma GCC unroll 6
      for (int c = 0; c < kVectors; ++c) sum[r][c] = _mm512_fmadd_ps(weight, row[c], sum[r][c]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int c = 0; c < kVectors; ++c) {
      _mm512_storeu_ps(out + r * d.padded_dim + c * kLanes, sum[r][c]);
    }
  }
}

using Weigh = void (*)(const PvDirect& direct, int64_t column, int64_t begin, int64_t end);

template <DType kStorage, int kVectors, int... kRows>
constexpr std::array<Weigh, kBlockRows> weigh_table(std::integer_sequence<int, kRows...>) {
  return {weigh<kStorage, kRows + 1, kVectors>...};
}

template <DType kStorage>
void weigh_all(const PvDirect& direct, int64_t rows) {
  constexpr auto kRows = std::make_integer_sequence<int, kBlockRows>();
  static constexpr auto kFour = weigh_table<kStorage, 4>(kRows);
  static constexpr auto kOne = weigh_table<kStorage, 1>(kRows);
  const auto index = static_cast<size_t>(rows - 1);
  std::fill_n(direct.out, rows * direct.padded_dim, 0.0f);
  for (int64_t begin = direct.from.begin; begin < direct.from.end;) {
    const int64_t end = std::min((begin / kStretch + 1) * kStretch, direct.from.end);
    int64_t column = 0;
    for (; column + 4 * kLanes <= direct.range.dim; column += 4 * kLanes) {
      kFour[index](direct, column, begin, end);
    }
    for (; column < direct.padded_dim; column += kLanes) kOne[index](direct, column, begin, end);
    begin = end;
  }
}

}  // namespace

void pv_direct(const PvDirect& direct, int64_t rows) {
  switch (direct.range.storage) {
    case DType::kF32:
      return weigh_all<DType::kF32>(direct, rows);
    case DType::kF16:
      return weigh_all<DType::kF16>(direct, rows);
    case DType::kBf16:
      return weigh_all<DType::kBf16>(direct, rows);
    case DType::kI8:
      return weigh_all<DType::kI8>(direct, rows);
    default:
      return weigh_all<DType::kF8E4M3>(direct, rows);
  }
}

}  // namespace kvern::kernels::cpu::avx512
