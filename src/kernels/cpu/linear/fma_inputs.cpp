#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear/fma.h"
#include "kernels/cpu/linear/fma_codes.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kChunk = 8;  // divides every group

// Round to nearest even, as f32_to_bf16 does; the result is f32 again.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i biased = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i rounded = _mm256_blendv_epi8(biased, quiet, nan);
  return _mm256_castsi256_ps(
      _mm256_and_si256(rounded, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

[[gnu::target("avx2"), gnu::always_inline]] inline float fold_8(__m256 v) {
  const __m128 v4 = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 v2 = _mm_add_ps(v4, _mm_movehl_ps(v4, v4));
  return _mm_cvtss_f32(_mm_add_ss(v2, _mm_shuffle_ps(v2, v2, 1)));
}

// Inputs [k, k + 8), beyond the row's end zeros.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 load_chunk(const float* x, int64_t k,
                                                                     int64_t end) {
  if (k + kChunk <= end) return _mm256_loadu_ps(x + k);
  alignas(32) float padded[kChunk] = {};
  if (k < end) std::memcpy(padded, x + k, static_cast<size_t>(end - k) * sizeof(float));
  return _mm256_load_ps(padded);
}

// 16^-q of each element of an int4 step; the topmost nibble comes shifted down.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 nibble_units() {
  alignas(32) float units[kChunk];
  for (int e = 0; e < kChunk; ++e) {
    units[e] = kNibbleOf[e] == 7 ? 1.0f : 1.0f / static_cast<float>(1 << (4 * kNibbleOf[e]));
  }
  return _mm256_load_ps(units);
}

}  // namespace

[[gnu::target("avx2")]] void fma_arrange(const FmaTask& task, int64_t block) {
  const FmaInputs& in = task.inputs;
  const LinearDesc& desc = task.desc;
  const bool round = desc.storage != DType::kF32 && desc.storage != DType::kF16;
  const __m256 units = desc.storage == DType::kI4 ? nibble_units() : _mm256_set1_ps(1.0f);
  const int64_t group_k = task.layout.steps_per_group * task.layout.step_elements;
  const int64_t tokens = in.tokens_in(block);
  const int64_t first = in.first_of(block);
  for (int64_t t = 0; t < tokens; ++t) {
    const float* x = task.args.x + (first + t) * task.args.x_stride;
    float* to = in.x + first * in.num_k + t;
    float* sum_to = in.sums == nullptr ? nullptr : in.sums + first * in.groups + t;
    for (int64_t begin = 0; begin < in.num_k; begin += group_k) {
      const int64_t end = std::min(in.num_k, begin + group_k);
      __m256 sum = _mm256_setzero_ps();
      for (int64_t k = begin; k < end; k += kChunk) {
        __m256 value = load_chunk(x, k, desc.k);
        if (round) value = round_bf16(value);
        sum = _mm256_add_ps(sum, value);
        alignas(32) float chunk[kChunk];
        _mm256_store_ps(chunk, _mm256_mul_ps(value, units));
        for (int64_t i = 0; i < std::min(kChunk, end - k); ++i) to[(k + i) * tokens] = chunk[i];
      }
      if (sum_to == nullptr) continue;
      *sum_to = fold_8(sum);
      sum_to += tokens;
    }
  }
}

}  // namespace kvern::kernels::cpu
