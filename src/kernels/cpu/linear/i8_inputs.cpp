#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/i8.h"

namespace kvern::kernels::cpu {
namespace {

constexpr float kSmallest = 1e-30f;  // below it 127 / max would not be finite
constexpr int kStretch = 32;

[[gnu::target("avx2"), gnu::always_inline]] inline int32_t fold_max(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1))));
}

[[gnu::target("avx2"), gnu::always_inline]] inline int32_t fold_sum(__m256i v) {
  __m128i m = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1))));
}

}  // namespace

// Magnitudes are compared as integers, so that a NaN is the largest and makes d NaN: it is not
// lost.
I8Quantised quantise_plain(const float* x, int64_t count, bool i4_order, int8_t* q) {
  std::memset(q, 0, kStretch);
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    bits = std::max(bits, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  const auto largest = std::bit_cast<float>(bits);
  if (largest < kSmallest) return {0.0f, 0};
  const float inverse = 127.0f / largest;
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = x[i] * inverse;
    // What is not a number or too large becomes -127, as the vector form has it.
    const bool fits = value > -127.5f && value < 127.5f;
    const int32_t code = fits ? static_cast<int32_t>(std::nearbyint(value)) : -127;
    q[i] = static_cast<int8_t>(code);
    sum += code;
  }
  if (i4_order) {
    int8_t ordered[kStretch];
    for (int i = 0; i < kStretch; ++i) ordered[i] = q[i / 8 * 8 + kI4Order[i % 8]];
    std::memcpy(q, ordered, kStretch);
  }
  return {largest / 127.0f, sum};
}

[[gnu::target("avx2,fma")]] I8Quantised quantise_avx2(const float* x, int64_t count, bool i4_order,
                                                      int8_t* q) {
  alignas(32) float padded[kStretch];
  if (count < kStretch) {
    std::memset(padded, 0, sizeof(padded));
    std::memcpy(padded, x, static_cast<size_t>(count) * sizeof(float));
    x = padded;
  }
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256 v[4];
  __m256i largest_bits = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    largest_bits =
        _mm256_max_epi32(largest_bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  const auto largest = std::bit_cast<float>(fold_max(largest_bits));
  auto* to = reinterpret_cast<__m256i*>(q);
  if (largest < kSmallest) {
    _mm256_storeu_si256(to, _mm256_setzero_si256());
    return {0.0f, 0};
  }
  const __m256 inverse = _mm256_set1_ps(127.0f / largest);
  __m256i code[4];
  for (int i = 0; i < 4; ++i) code[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  const __m256i mixed = _mm256_packs_epi16(_mm256_packs_epi32(code[0], code[1]),
                                           _mm256_packs_epi32(code[2], code[3]));
  __m256i codes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  codes = _mm256_max_epi8(codes, _mm256_set1_epi8(-127));
  const __m256i nibble_order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15));
  _mm256_storeu_si256(to, i4_order ? _mm256_shuffle_epi8(codes, nibble_order) : codes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  return {largest / 127.0f, fold_sum(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}

}  // namespace kvern::kernels::cpu
