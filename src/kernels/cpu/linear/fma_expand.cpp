#include "kernels/cpu/linear/fma.h"
#include "kernels/cpu/linear/fma_codes.h"

namespace kvern::kernels::cpu {
namespace {

template <class Codes>
[[gnu::target("avx2,f16c")]] void expand_lines(const std::byte* from, int64_t lines, bool has_min,
                                               int64_t ahead_bytes, float* to) {
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(has_min ? 0 : 0x88));
  for (int64_t i = 0; i < lines; ++i, from += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(from + ahead_bytes), _MM_HINT_T1);
    const __m256i low = load_words<Codes>(from, flip);
    const __m256i high = load_words<Codes>(from + 32, flip);
#pragma GCC unroll 8
    for (int e = 0; e < Codes::kElements; ++e, to += kTileRows) {
      _mm256_store_ps(to, Codes::element(low, e));
      _mm256_store_ps(to + 8, Codes::element(high, e));
    }
  }
}

}  // namespace

void fma_expand(const LinearDesc& desc, const TileLayout& layout, const std::byte* tile,
                int64_t begin, int64_t end, int64_t ahead_bytes, float* to) {
  const std::byte* from = tile + layout.codes_at(begin);
  const int64_t lines = end - begin;
  switch (desc.storage) {
    case DType::kF16:
      return expand_lines<FmaF16>(from, lines, desc.has_min, ahead_bytes, to);
    case DType::kBf16:
      return expand_lines<FmaBf16>(from, lines, desc.has_min, ahead_bytes, to);
    case DType::kI8:
      return expand_lines<FmaI8>(from, lines, desc.has_min, ahead_bytes, to);
    default:
      return expand_lines<FmaI4>(from, lines, desc.has_min, ahead_bytes, to);
  }
}

[[gnu::target("avx2,f16c")]] void fma_planes(const LinearDesc& desc, const TileLayout& layout,
                                             const std::byte* tile, int64_t first, int64_t last,
                                             float* scales, float* minima) {
  const __m256 unit = _mm256_set1_ps(fma_unit(desc.storage));
  for (int64_t g = first; g < last; ++g, scales += kTileRows, minima += kTileRows) {
    for (int half = 0; half < 2; ++half) {
      const __m256 scale = load_8(desc.scale, tile + layout.scale_at(g), half);
      _mm256_store_ps(scales + 8 * half, _mm256_mul_ps(scale, unit));
      if (!desc.has_min) continue;
      _mm256_store_ps(minima + 8 * half, load_8(desc.scale, tile + layout.min_at(g), half));
    }
  }
}

}  // namespace kvern::kernels::cpu
