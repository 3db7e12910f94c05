// The linear by fp32 FMA, for processors without AVX512-BF16 and for f32 and f16 weights.
//
// bf16, int8 and int4 weights have the numerics id "bf16.fma.f32": inputs x rounded to bf16,
//   group sum s = 0; for k ascending: s = fma(code[k] * 2^u, x[k] * 2^-u, s)
//   y = 0; for groups ascending: y = fma(scale, s, y), then y = fma(min, sum of the group's x, y)
//   then y + bias
// where signed int4 codes count from 0 to 15, for which s starts at -8 * sum of the group's x, and
// 2^u is where a nibble lies in its word: the shift is left to the input, which is exact. bf16
// weights are one group without a scale.
//
// f32 and f16 weights have the plain id: y = 0; for k ascending: y = fma(w[k], x[k], y); then bias.
//
// A lane is one output, so a wider register changes no bit.
#pragma once

#include "kernels/cpu/linear/token_blocks.h"
#include "kernels/cpu/pack/tile_layout.h"
#include "kernels/linear.h"

namespace kvern::kernels::cpu {

inline constexpr int64_t kFmaFewTokens = 4;  // of a block whose codes become f32 in registers
// Rows up to which that beats expanding to L1, which f32 does not need and for which, one tile
// after the other, the processor's own prefetching is best: 30 GB/s where four side by side had 26.
inline int64_t fma_few_rows(DType storage) {
  if (storage == DType::kF32) return 0;
  return storage == DType::kF16 ? kFmaFewTokens : 2 * kFmaFewTokens;
}
inline constexpr int64_t kFmaStretch = 256;  // elements of K expanded at once: 16 KiB of L1
inline constexpr int64_t kFmaStretchGroups = kFmaStretch / 16;  // at most

// What one unit of an expanded code is worth.
inline float fma_unit(DType storage) {
  return storage == DType::kI8 ? 0x1p-24f : 1.0f;
}
// What a group's sum starts at, times the sum of its inputs.
inline float fma_start(const LinearDesc& desc) {
  return desc.storage == DType::kI4 && !desc.has_min ? -8.0f : 0.0f;
}
inline bool fma_needs_sums(const LinearDesc& desc) {
  return desc.has_min || desc.storage == DType::kI4;
}

struct FmaInputs : TokenBlocks {
  float* x = nullptr;     // [block][k][t], K padded with zeros to whole steps
  float* sums = nullptr;  // [block][groups][t] of the rounded inputs; nullptr unless needed
  int64_t num_k = 0;
  int64_t groups = 0;

  const float* x_of(int64_t block) const { return x + first_of(block) * num_k; }
  const float* sums_of(int64_t block) const {
    return sums == nullptr ? nullptr : sums + first_of(block) * groups;
  }
};

struct FmaTask {
  const LinearDesc& desc;
  const TileLayout& layout;
  const LinearArgs& args;
  const FmaInputs& inputs;
};

// One stretch of K of one tile, for one block of tokens.
struct FmaStretch {
  const float* w;       // [k][16]
  const float* scales;  // [groups][16]; nullptr: sums go on from y and back to it
  const float* minima;  // [groups][16] or nullptr
  const float* x;       // [k][tokens]
  const float* xsums;   // [groups][tokens] or nullptr
  float start;          // fma_start, where there are scales
  int64_t k;
  int64_t group_k;
  float* y;  // [tokens][16]
};
using FmaMultiply = void (*)(const FmaStretch& stretch);

// What differs between instruction sets when there are many tokens.
struct FmaWidth {
  int64_t block_tokens;
  const FmaMultiply* multiply;  // by tokens - 1
};
FmaWidth fma_width_avx2();
FmaWidth fma_width_avx512();

// AVX2 and F16C, on wider processors as well: memory is their limit.
void fma_arrange(const FmaTask& task, int64_t block);
void fma_few(const FmaTask& task, int64_t first, int64_t last, int64_t next);
// Codes but f32 of steps [begin, end) of a tile as f32: to[k][16]. `ahead_bytes`: to the tile read
// next.
void fma_expand(const LinearDesc& desc, const TileLayout& layout, const std::byte* tile,
                int64_t begin, int64_t end, int64_t ahead_bytes, float* to);
// Scales times unit, and minima where there are, of groups [first, last) as f32: [groups][16] each.
void fma_planes(const LinearDesc& desc, const TileLayout& layout, const std::byte* tile,
                int64_t first, int64_t last, float* scales, float* minima);

Verdict supports_linear_bf16_fma_avx2(const LinearDesc& desc);
Verdict supports_linear_bf16_fma_avx512(const LinearDesc& desc);
Verdict supports_linear_f32_fma_avx2(const LinearDesc& desc);
Verdict supports_linear_f32_fma_avx512(const LinearDesc& desc);
void run_linear_fma_avx2(const LinearDesc& desc, const LinearArgs& args);
void run_linear_fma_avx512(const LinearDesc& desc, const LinearArgs& args);

}  // namespace kvern::kernels::cpu
