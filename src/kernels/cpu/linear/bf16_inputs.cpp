#include <algorithm>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/linear/bf16.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kChunk = 16;  // inputs rounded at once; divides every group

// One row into its column of a block. Inputs beyond k count as zeros.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void round_row(
    const float* x, int64_t k, int64_t chunks, bool swap_middle, int64_t stride, uint32_t* to) {
  const __m256i swapped = _mm256_set_epi8(15, 14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0, 15,
                                          14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0);
  for (int64_t c = 0; c < chunks; ++c) {
    const int64_t left = std::clamp<int64_t>(k - c * kChunk, 0, kChunk);
    const auto mask = static_cast<__mmask16>((1u << left) - 1u);
    __m256i rounded =
        (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + std::min(k, c * kChunk)));
    if (swap_middle) rounded = _mm256_shuffle_epi8(rounded, swapped);
    if (stride == 1) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c * 8), rounded);
      continue;
    }
    alignas(32) uint32_t pairs[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(pairs), rounded);
    for (int64_t i = 0; i < 8; ++i) to[(c * 8 + i) * stride] = pairs[i];
  }
}

// Sums of the rounded inputs of each group: 16 lanes over its chunks, then the lanes.
[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void sum_groups(const float* x, int64_t k,
                                                                        int64_t groups,
                                                                        int64_t group_elements,
                                                                        int64_t stride, float* to) {
  for (int64_t g = 0; g < groups; ++g) {
    __m512 lanes = _mm512_setzero_ps();
    const int64_t end = std::min(k, (g + 1) * group_elements);
    for (int64_t i = g * group_elements; i < end; i += kChunk) {
      const auto mask = static_cast<__mmask16>((1u << std::min(kChunk, end - i)) - 1u);
      const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
      lanes = _mm512_add_ps(
          lanes, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16)));
    }
    to[g * stride] = _mm512_reduce_add_ps(lanes);
  }
}

}  // namespace

void round_block(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                 const Bf16Inputs& inputs, int64_t block) {
  const int64_t tokens = inputs.tokens_in(block);
  const int64_t first = block * inputs.block_tokens;
  uint32_t* pairs = inputs.pairs + first * inputs.num_pairs;
  for (int64_t t = 0; t < tokens; ++t) {
    const float* x = args.x + (first + t) * args.x_stride;
    round_row(x, desc.k, inputs.num_pairs / 8, desc.storage == DType::kI8, tokens, pairs + t);
    if (inputs.sums != nullptr) {
      sum_groups(x, desc.k, inputs.groups, layout.steps_per_group * layout.step_elements, tokens,
                 inputs.sums + first * inputs.groups + t);
    }
  }
}

}  // namespace kvern::kernels::cpu
