#include <algorithm>
#include <cstring>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/kv/codec.h"
#include "tensor/float_bits.h"

namespace kvern::kernels::cpu {
namespace {

[[gnu::target("avx512f,avx512bw,avx512vl")]] void encode_bf16(const float* x, int64_t dim,
                                                              std::byte* codes) {
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    _mm256_mask_storeu_epi16(codes + 2 * i, mask, bf16_bits(_mm512_maskz_loadu_ps(mask, x + i)));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl")]] void encode_f16(const float* x, int64_t dim,
                                                             std::byte* codes) {
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 values = _mm512_maskz_loadu_ps(mask, x + i);
    const __m256i half = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // f32_to_f16 keeps the sign of NaN and nothing else.
    const __m256i sign = _mm256_and_si256(half, _mm256_set1_epi16(-0x8000));
    const __m256i quiet = _mm256_or_si256(sign, _mm256_set1_epi16(0x7e00));
    const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    _mm256_mask_storeu_epi16(codes + 2 * i, mask, _mm256_mask_mov_epi16(half, nan, quiet));
  }
}

// Largest magnitude of x[0, count); infinity or NaN in x give a value that is not finite.
[[gnu::target("avx512f,avx512dq")]] float largest_of(const float* x, int64_t count) {
  // Magnitudes compare as integers, and so does NaN: above every number.
  __m512i largest = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += 16) {
    const __m512 v = _mm512_maskz_loadu_ps(first_lanes(count - i), x + i);
    largest = _mm512_max_epi32(largest, _mm512_castps_si512(_mm512_abs_ps(v)));
  }
  const int32_t bits = _mm512_reduce_max_epi32(largest);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512i i8_codes(__m512 scaled) {
  const __m512 above = _mm512_max_ps(scaled, _mm512_set1_ps(-127.0f));
  return _mm512_cvtps_epi32(_mm512_min_ps(above, _mm512_set1_ps(127.0f)));  // to nearest even
}

// To nearest even in integers; below 2^-6, the least normal number, in units of 2^-9.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512i f8_codes(__m512 scaled) {
  const __m512i bits = _mm512_castps_si512(scaled);
  const __m512i top = _mm512_castps_si512(_mm512_set1_ps(448.0f));
  const __m512i size = _mm512_min_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)), top);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(size, 20), _mm512_set1_epi32(1));
  const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7ffff));
  const __m512i normal = _mm512_sub_epi32(_mm512_srli_epi32(_mm512_add_epi32(size, bias), 20),
                                          _mm512_set1_epi32(120 << 3));
  const __m512i small =
      _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(size), _mm512_set1_ps(512.0f)));
  const __m512i least = _mm512_castps_si512(_mm512_set1_ps(0x1p-6f));
  const __m512i code = _mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(size, least), small);
  return _mm512_or_si512(code,
                         _mm512_and_si512(_mm512_srli_epi32(bits, 24), _mm512_set1_epi32(0x80)));
}

template <DType kStorage>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void encode_group(const float* x,
                                                                        int64_t count,
                                                                        std::byte* codes,
                                                                        std::byte* scale) {
  const float inverse = write_scale(kStorage, largest_of(x, count), scale);
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = first_lanes(count - i);
    const __mmask16 live = inverse == 0.0f ? __mmask16{0} : mask;
    const __m512 scaled =
        _mm512_mul_ps(_mm512_maskz_loadu_ps(live, x + i), _mm512_set1_ps(inverse));
    const __m512i code = kStorage == DType::kI8 ? i8_codes(scaled) : f8_codes(scaled);
    _mm_mask_storeu_epi8(codes + i, mask, _mm512_cvtepi32_epi8(code));
  }
}

}  // namespace

void encode_kv_avx512(const KvRange& range, const float* x, std::byte* codes, std::byte* scales) {
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
