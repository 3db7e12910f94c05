#include <algorithm>
#include <cstring>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/kv/codec.h"
#include "tensor/float_bits.h"

namespace kvern::kernels::cpu {
namespace {

// The first `count` of 8 codes of kBytes each.
template <int64_t kBytes>
[[gnu::target("avx2"), gnu::always_inline]] inline void store_codes(std::byte* codes, int64_t count,
                                                                    __m128i value) {
  alignas(16) std::byte all[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(all), value);
  if (count >= 8) {
    std::memcpy(codes, all, 8 * kBytes);
  } else {
    std::memcpy(codes, all, static_cast<size_t>(count * kBytes));
  }
}

// 32-bit lanes that fit in 16.
[[gnu::target("avx2"), gnu::always_inline]] inline __m128i narrow(__m256i x) {
  return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

[[gnu::target("avx2")]] void encode_bf16(const float* x, int64_t dim, std::byte* codes) {
  for (int64_t i = 0; i < dim; i += 8) {
    store_codes<2>(codes + 2 * i, dim - i, bf16_bits(load_first(x + i, dim - i)));
  }
}

[[gnu::target("avx2,f16c")]] void encode_f16(const float* x, int64_t dim, std::byte* codes) {
  for (int64_t i = 0; i < dim; i += 8) {
    const __m256 values = load_first(x + i, dim - i);
    const __m128i half = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // f32_to_f16 keeps the sign of NaN and nothing else.
    const __m128i sign = _mm_and_si128(half, _mm_set1_epi16(-0x8000));
    const __m128i quiet = _mm_or_si128(sign, _mm_set1_epi16(0x7e00));
    const __m128i nan = narrow(_mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)));
    store_codes<2>(codes + 2 * i, dim - i, _mm_blendv_epi8(half, quiet, nan));
  }
}

// Magnitudes compare as integers, and so does NaN: above every number.
[[gnu::target("avx2")]] float largest_of(const float* x, int64_t count) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256();
  for (int64_t i = 0; i < count; i += 8) {
    const __m256i bits = _mm256_castps_si256(load_first(x + i, count - i));
    largest = _mm256_max_epi32(largest, _mm256_and_si256(bits, magnitude));
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), largest);
  const int32_t bits = *std::max_element(lanes, lanes + 8);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i i8_codes(__m256 scaled) {
  const __m256 above = _mm256_max_ps(scaled, _mm256_set1_ps(-127.0f));
  return _mm256_cvtps_epi32(_mm256_min_ps(above, _mm256_set1_ps(127.0f)));
}

// As codec_avx512.cpp: to nearest even in integers, below 2^-6 in units of 2^-9.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i f8_codes(__m256 scaled) {
  const __m256i bits = _mm256_castps_si256(scaled);
  const __m256i top = _mm256_castps_si256(_mm256_set1_ps(448.0f));
  const __m256i size = _mm256_min_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)), top);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(size, 20), _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(_mm256_add_epi32(size, bias), 20),
                                          _mm256_set1_epi32(120 << 3));
  const __m256i small =
      _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(size), _mm256_set1_ps(512.0f)));
  const __m256i least = _mm256_castps_si256(_mm256_set1_ps(0x1p-6f));
  const __m256i code = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(least, size));
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
  return _mm256_or_si256(code, sign);
}

template <DType kStorage>
[[gnu::target("avx2")]] void encode_group(const float* x, int64_t count, std::byte* codes,
                                          std::byte* scale) {
  const float inverse = write_scale(kStorage, largest_of(x, count), scale);
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 values = inverse == 0.0f ? _mm256_setzero_ps() : load_first(x + i, count - i);
    const __m256 scaled = _mm256_mul_ps(values, _mm256_set1_ps(inverse));
    if constexpr (kStorage == DType::kI8) {
      const __m128i wide = narrow(i8_codes(scaled));
      store_codes<1>(codes + i, count - i, _mm_packs_epi16(wide, wide));
    } else {
      const __m128i wide = narrow(f8_codes(scaled));
      store_codes<1>(codes + i, count - i, _mm_packus_epi16(wide, wide));
    }
  }
}

}  // namespace

void encode_kv_avx2(const KvRange& range, const float* x, std::byte* codes, std::byte* scales) {
  switch (range.storage) {
    case DType::kF32:
      std::memcpy(codes, x, static_cast<size_t>(range.dim) * sizeof(float));
      return;
    case DType::kBf16:
      return encode_bf16(x, range.dim, codes);
    case DType::kF16:
      return encode_f16(x, range.dim, codes);
    default:
      break;
  }
  const auto encode =
      range.storage == DType::kI8 ? encode_group<DType::kI8> : encode_group<DType::kF8E4M3>;
  for (int64_t i = 0; i < range.dim; i += range.group) {
    encode(x + i, std::min<int64_t>(range.group, range.dim - i), codes + i,
           scales + i / range.group * 2);
  }
}

}  // namespace kvern::kernels::cpu
