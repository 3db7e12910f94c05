// Splits brought from their pages into the order that the products want.
#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/kv_attention/avx2.h"
#include "kernels/cpu/kv_attention/avx2_load.h"

namespace kvern::kernels::cpu::avx2 {
namespace {

// rows[i] lane j -> rows[j] lane i.
[[gnu::target("avx2"), gnu::always_inline]] inline void transpose8(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

// Elements [i, i + 8) of 8 positions, turned on their side.
template <DType kStorage>
[[gnu::target("avx2,fma,f16c"), gnu::always_inline]] inline void turn_block(
    const KvRange& range, const std::byte* const* codes, const float* scales, int64_t groups,
    int64_t i, float* to) {
  const int64_t count = std::min<int64_t>(range.dim - i, 8);
  __m256 rows[8];
#pragma GCC unroll 8
  for (int lane = 0; lane < 8; ++lane) {
    rows[lane] = load8<kStorage>(codes[lane], scales + lane * groups + i / range.group, i, count);
  }
  transpose8(rows);
#pragma GCC unroll 8
  for (int step = 0; step < 8; ++step) {
    if (step < count) _mm256_storeu_ps(to + step * kLanes, rows[step]);
  }
}

template <DType kStorage>
[[gnu::target("avx2,fma,f16c")]] void stage_k_of(const KvRange& range, const SplitSource& from,
                                                 float* k) {
  for (int64_t block = from.begin / kLanes; block * kLanes < from.end; ++block) {
    const int64_t first = block * kLanes;
    const std::byte* const* ahead = from.k + first + kAheadTokens;
    const int64_t num_ahead = std::clamp(from.ahead_end - first - kAheadTokens, int64_t{0}, kLanes);
    // Lanes outside [begin, end) repeat a row inside: their scores are never looked at.
    const std::byte* codes[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      codes[lane] = from.k[std::clamp(first + lane, from.begin, from.end - 1)];
    }
    for (int64_t i = 0; i < range.dim; i += 8) {
      float* to = k + (block * range.dim + i) * kLanes;
      const int64_t byte = i * kCodeBytes<kStorage>;
      for (int64_t lane = 0; byte % 64 == 0 && lane < num_ahead; ++lane) {
        __builtin_prefetch(ahead[lane] + byte, 0, 1);
      }
      for (int64_t half = 0; half < kLanes; half += kHalf) {
        turn_block<kStorage>(range, codes + half, from.k_scale + (first + half) * from.k_groups,
                             from.k_groups, i, to + half);
      }
    }
  }
}

template <DType kStorage>
[[gnu::target("avx2,fma,f16c")]] void stage_v_of(const KvRange& range, const SplitSource& from,
                                                 int64_t padded_dim, float* v) {
  for (int64_t p = from.begin; p < from.end; ++p) {
    if (p % kLanes == 0 || p == from.begin) {
      ask_ahead(from, from.v, range.token_bytes, p / kLanes * kLanes);
    }
    const float* scales = from.v_scale + p * from.v_groups;
    for (int64_t i = 0; i < padded_dim; i += 8) {
      _mm256_storeu_ps(v + p * padded_dim + i,
                       load8<kStorage>(from.v[p], scales + i / range.group, i, range.dim - i));
    }
  }
}

}  // namespace

[[gnu::target("avx2,f16c")]] void stage_scales(const std::byte* scales, int64_t count, float factor,
                                               float* to) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 scale = _mm256_cvtph_ps(load_bytes<2>(scales + 2 * i, count - i));
    store_first(to + i, count - i, _mm256_mul_ps(scale, _mm256_set1_ps(factor)));
  }
}

void stage_k(QkInput input, const KvRange& range, const SplitSource& from, float* k, float*) {
  KVERN_DCHECK(input == QkInput::kF32, "AVX2 has no dot product of bf16");
  switch (range.storage) {
    case DType::kF32:
      return stage_k_of<DType::kF32>(range, from, k);
    case DType::kF16:
      return stage_k_of<DType::kF16>(range, from, k);
    case DType::kBf16:
      return stage_k_of<DType::kBf16>(range, from, k);
    case DType::kI8:
      return stage_k_of<DType::kI8>(range, from, k);
    default:
      return stage_k_of<DType::kF8E4M3>(range, from, k);
  }
}

void stage_v(const KvRange& range, const SplitSource& from, int64_t padded_dim, float* v) {
  switch (range.storage) {
    case DType::kF32:
      return stage_v_of<DType::kF32>(range, from, padded_dim, v);
    case DType::kF16:
      return stage_v_of<DType::kF16>(range, from, padded_dim, v);
    case DType::kBf16:
      return stage_v_of<DType::kBf16>(range, from, padded_dim, v);
    case DType::kI8:
      return stage_v_of<DType::kI8>(range, from, padded_dim, v);
    default:
      return stage_v_of<DType::kF8E4M3>(range, from, padded_dim, v);
  }
}

}  // namespace kvern::kernels::cpu::avx2
