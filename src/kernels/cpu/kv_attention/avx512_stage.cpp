// Splits brought from their pages into the order that the products want.
#include <algorithm>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/kv_attention/avx512.h"
#include "kernels/cpu/kv_attention/avx512_load.h"

namespace kvern::kernels::cpu::avx512 {
namespace {

// rows[i] lane j -> rows[j] lane i, 4 bytes each. Unrolled, or the arrays live in memory.
[[gnu::target("avx512f"), gnu::always_inline]] inline void transpose16(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// 32 codes of f8e4m3 as bf16, which holds each exactly.
[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline __m512i bf16_of_f8(__m256i codes) {
  // bf16 of 0 to 7 times 2^-9, the numbers below its normal ones.
  const __m512i small = _mm512_castsi128_si512(
      _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
  const __m512i code = _mm512_cvtepi8_epi16(codes);
  const __m512i magnitude = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
  const __m512i sign = _mm512_and_si512(code, _mm512_set1_epi16(-0x8000));
  const __m512i normal =
      _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(0x3c00));
  const __mmask32 is_small = _mm512_cmplt_epi16_mask(magnitude, _mm512_set1_epi16(8));
  const __m512i value = _mm512_mask_permutexvar_epi16(normal, is_small, magnitude, small);
  return _mm512_or_si512(value, sign);
}

// Steps [step, step + 16) of a row of K: 32 bf16 or 16 f32.
template <QkInput kInput, DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::always_inline]] inline __m512i
load_steps(const KvRange& range, const std::byte* codes, const float* scales, int64_t step) {
  if constexpr (kInput == QkInput::kF32) {
    return _mm512_castps_si512(
        load16<kStorage>(codes, scales + step / range.group, step, first_lanes(range.dim - step)));
  } else if constexpr (kStorage == DType::kBf16) {
    const int64_t left = range.dim - 2 * step;
    const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    return _mm512_maskz_loadu_epi16(mask, codes + 4 * step);
  } else if constexpr (kStorage == DType::kF8E4M3) {
    const int64_t left = range.dim - 2 * step;
    const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    return bf16_of_f8(_mm256_maskz_loadu_epi8(mask, codes + 2 * step));
  } else {
    __m512 value[2];
#pragma GCC unroll 2
    for (int64_t part = 0; part < 2; ++part) {
      const int64_t i = 2 * step + 16 * part;
      const __m128i bytes = _mm_maskz_loadu_epi8(first_lanes(range.dim - i), codes + i);
      value[part] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    }
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(value[1], value[0]));
  }
}

// Steps [step, step + count) of one block of positions, turned on their side.
template <QkInput kInput, DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::always_inline]] inline void turn_block(
    const KvRange& range, const std::byte* const* codes, const float* scales, int64_t groups,
    int64_t step, int64_t count, const std::byte* const* ahead, int64_t num_ahead, float* to) {
  constexpr int64_t kStepBytes = (kInput == QkInput::kBf16 ? 2 : 1) * kCodeBytes<kStorage>;
  __m512i rows[16];
#pragma GCC unroll 16
  for (int lane = 0; lane < 16; ++lane) {
    // Beside each load, not in one go: asked for all at once, they hold up the loads behind them.
    if (lane < num_ahead) __builtin_prefetch(ahead[lane] + step * kStepBytes, 0, 1);
    rows[lane] = load_steps<kInput, kStorage>(range, codes[lane], scales + lane * groups, step);
  }
  transpose16(rows);
  if (count >= 16) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * kLanes, rows[i]);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (i < count) _mm512_storeu_si512(to + i * kLanes, rows[i]);
  }
}

template <QkInput kInput, DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void stage_k_of(const KvRange& range,
                                                                        const SplitSource& from,
                                                                        float* k) {
  const int64_t steps = dot_steps(kInput, range.dim);
  for (int64_t block = from.begin / kLanes; block * kLanes < from.end; ++block) {
    const int64_t first = block * kLanes;
    const std::byte* const* codes = from.k + first;
    const int64_t num_ahead = std::clamp(from.ahead_end - first - kAheadTokens, int64_t{0}, kLanes);
    // Lanes outside [begin, end) repeat a row inside: their scores are never looked at.
    const std::byte* edge[kLanes];
    if (first < from.begin || first + kLanes > from.end) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        edge[lane] = from.k[std::clamp(first + lane, from.begin, from.end - 1)];
      }
      codes = edge;
    }
    for (int64_t step = 0; step < steps; step += 16) {
      turn_block<kInput, kStorage>(range, codes, from.k_scale + first * from.k_groups,
                                   from.k_groups, step, steps - step, from.k + first + kAheadTokens,
                                   num_ahead, k + (block * steps + step) * kLanes);
    }
  }
}

// [position][group] -> [block][group][16 positions].
void turn_scales(const SplitSource& from, float* k_scale) {
  const int64_t groups = from.k_groups;
  for (int64_t p = from.begin / kLanes * kLanes; p < from.end; p += kLanes) {
    for (int64_t g = 0; g < groups; ++g) {
      const float* scale = from.k_scale + p * groups + g;
      float* to = k_scale + (p / kLanes * groups + g) * kLanes;
      for (int64_t lane = 0; lane < kLanes; ++lane) to[lane] = scale[lane * groups];
    }
  }
}

template <DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl")]] void stage_v_of(const KvRange& range,
                                                             const SplitSource& from,
                                                             int64_t padded_dim, float* v) {
  for (int64_t p = from.begin; p < from.end; ++p) {
    if (p % kLanes == 0 || p == from.begin) {
      ask_ahead(from, from.v, range.token_bytes, p / kLanes * kLanes);
    }
    const std::byte* codes = from.v[p];
    const float* scales = from.v_scale + p * from.v_groups;
    float* to = v + p * padded_dim;
    int64_t i = 0;
    for (; i + 64 <= range.dim; i += 64) {
#pragma GCC unroll 4
      for (int64_t j = i; j < i + 64; j += 16) {
        _mm512_storeu_ps(to + j, load16<kStorage>(codes, scales + j / range.group, j, 0xffff));
      }
    }
    for (; i < padded_dim; i += 16) {
      const __mmask16 mask = first_lanes(range.dim - i);
      _mm512_storeu_ps(to + i, load16<kStorage>(codes, scales + i / range.group, i, mask));
    }
  }
}

}  // namespace

[[gnu::target("avx512f,avx512bw,avx512vl")]] void stage_scales(const std::byte* scales,
                                                               int64_t count, float factor,
                                                               float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 mask = first_lanes(count - i);
    const __m512 scale = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, scales + 2 * i));
    _mm512_mask_storeu_ps(to + i, mask, _mm512_mul_ps(scale, _mm512_set1_ps(factor)));
  }
}

void stage_k(QkInput input, const KvRange& range, const SplitSource& from, float* k,
             float* k_scale) {
  if (input == QkInput::kBf16) {
    if (range.storage == DType::kBf16) {
      return stage_k_of<QkInput::kBf16, DType::kBf16>(range, from, k);
    }
    if (range.storage == DType::kI8) {
      stage_k_of<QkInput::kBf16, DType::kI8>(range, from, k);
    } else {
      stage_k_of<QkInput::kBf16, DType::kF8E4M3>(range, from, k);
    }
    return turn_scales(from, k_scale);
  }
  switch (range.storage) {
    case DType::kF32:
      return stage_k_of<QkInput::kF32, DType::kF32>(range, from, k);
    case DType::kF16:
      return stage_k_of<QkInput::kF32, DType::kF16>(range, from, k);
    case DType::kBf16:
      return stage_k_of<QkInput::kF32, DType::kBf16>(range, from, k);
    case DType::kI8:
      return stage_k_of<QkInput::kF32, DType::kI8>(range, from, k);
    default:
      return stage_k_of<QkInput::kF32, DType::kF8E4M3>(range, from, k);
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

}  // namespace kvern::kernels::cpu::avx512
