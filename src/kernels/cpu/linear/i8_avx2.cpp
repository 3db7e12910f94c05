#include <algorithm>
#include <array>

#include "kernels/cpu/linear/fma_codes.h"
#include "kernels/cpu/linear/i8.h"
#include "kernels/cpu/linear/store_lanes.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int kMaxTokens = 4;  // 2 x 4 integer sums; outputs so far stay in L1

// One word of four codes per row, of 8 rows. maddubs sums pairs of u8 x s8 in 16 bits:
// i4: 2 * 15 * 127 fits; i8 with an offset would not, so signs move to the input: 2 * 128 * 127.
struct I8Word {
  __m256i magnitude;
  __m256i code;
  [[gnu::target("avx2"), gnu::always_inline]] explicit I8Word(__m256i c)
      : magnitude(_mm256_abs_epi8(c)), code(c) {}
  [[gnu::target("avx2"), gnu::always_inline]] __m256i pairs(__m256i q) const {
    return _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, code));
  }
};

struct I4Word {
  __m256i code;
  [[gnu::target("avx2"), gnu::always_inline]] explicit I4Word(__m256i c) : code(c) {}
  [[gnu::target("avx2"), gnu::always_inline]] __m256i pairs(__m256i q) const {
    return _mm256_maddubs_epi16(code, q);
  }
};

template <class Word, int kTokens>
[[gnu::target("avx2"), gnu::always_inline]] inline void dot_word(__m256i low, __m256i high,
                                                                 const uint32_t* words,
                                                                 __m256i* sum) {
  const __m256i ones = _mm256_set1_epi16(1);
  const Word w0(low);
  const Word w1(high);
#pragma GCC unroll 4
  for (int t = 0; t < kTokens; ++t) {
    const __m256i q = _mm256_set1_epi32(static_cast<int>(words[t]));
    sum[2 * t] = _mm256_add_epi32(sum[2 * t], _mm256_madd_epi16(w0.pairs(q), ones));
    sum[2 * t + 1] = _mm256_add_epi32(sum[2 * t + 1], _mm256_madd_epi16(w1.pairs(q), ones));
  }
}

// One tile for one block of kTokens tokens. y: [token][16]
template <bool kNibbles, int kTokens>
[[gnu::target("avx2,fma,f16c")]] void dot_tile(const I8Task& task, const std::byte* tile,
                                               int64_t block, float* y) {
  const TileLayout l = task.layout;
  const bool has_min = task.desc.has_min;
  const DType scale_type = task.desc.scale;
  const __m256i low_nibbles = _mm256_set1_epi8(15);
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(has_min ? 0 : 0x88));
  const uint32_t* words = task.inputs.words_of(block);
  const float* scales = task.inputs.scales_of(block);
  const int32_t* starts = task.inputs.starts_of(block);
  const float* sums = task.inputs.sums_of(block);
  std::fill_n(y, kTokens * kTileRows, 0.0f);
  for (int64_t s = 0; s < task.steps.stretches; ++s) {
    __m256i sum[2 * kTokens];
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      sum[2 * t] = sum[2 * t + 1] = _mm256_set1_epi32(starts[s * kTokens + t]);
    }
    const std::byte* line = tile + l.codes_at(task.steps.first_line(s));
    const uint32_t* q = words + s * task.steps.stretch_words * kTokens;
    const int64_t lines = task.steps.lines_in(l, s);
    for (int64_t i = 0; i < lines; ++i, line += kLineBytes) {
      _mm_prefetch(reinterpret_cast<const char*>(line + 4 * l.tile_bytes), _MM_HINT_T1);
      const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(line));
      const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(line) + 1);
      if constexpr (kNibbles) {
        const __m256i l0 = _mm256_xor_si256(low, flip);
        const __m256i h0 = _mm256_xor_si256(high, flip);
        dot_word<I4Word, kTokens>(_mm256_and_si256(l0, low_nibbles),
                                  _mm256_and_si256(h0, low_nibbles), q, sum);
        dot_word<I4Word, kTokens>(_mm256_and_si256(_mm256_srli_epi16(l0, 4), low_nibbles),
                                  _mm256_and_si256(_mm256_srli_epi16(h0, 4), low_nibbles),
                                  q + kTokens, sum);
        q += 2 * kTokens;
      } else {
        dot_word<I8Word, kTokens>(low, high, q, sum);
        q += kTokens;
      }
    }
    const int64_t g = task.steps.group_of(s);
    for (int half = 0; half < 2; ++half) {
      const __m256 scale = load_8(scale_type, tile + l.scale_at(g), half);
      const __m256 min = has_min ? load_8(scale_type, tile + l.min_at(g), half) : scale;
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        float* at = y + t * kTileRows + 8 * half;
        const __m256 dot = _mm256_mul_ps(_mm256_set1_ps(scales[s * kTokens + t]),
                                         _mm256_cvtepi32_ps(sum[2 * t + half]));
        __m256 value = _mm256_fmadd_ps(scale, dot, _mm256_loadu_ps(at));
        if (has_min) {
          value = _mm256_fmadd_ps(min, _mm256_set1_ps(sums[s * kTokens + t]), value);
        }
        _mm256_storeu_ps(at, value);
      }
    }
  }
}

using DotTile = void (*)(const I8Task&, const std::byte*, int64_t, float*);

template <bool kNibbles>
constexpr std::array<DotTile, kMaxTokens> kDotTile = {dot_tile<kNibbles, 1>, dot_tile<kNibbles, 2>,
                                                      dot_tile<kNibbles, 3>, dot_tile<kNibbles, 4>};

void run(const I8Task& task, int64_t first_block, int64_t last_block, int64_t first, int64_t last,
         int64_t /*next*/) {
  const auto& kernels = task.desc.storage == DType::kI4 ? kDotTile<true> : kDotTile<false>;
  for (int64_t tile = first; tile < last; ++tile) {
    const std::byte* packed = task.args.w + tile * task.layout.tile_bytes;
    for (int64_t block = first_block; block < last_block; ++block) {
      alignas(32) float y[kMaxTokens * kTileRows];
      const int64_t tokens = task.inputs.tokens_in(block);
      kernels[static_cast<size_t>(tokens - 1)](task, packed, block, y);
      for (int64_t t = 0; t < tokens; ++t) {
        store_lanes(task.desc, task.args, task.inputs.first_of(block) + t, tile, y + t * kTileRows);
      }
    }
  }
}

}  // namespace

const I8Kernels& i8_kernels_avx2() {
  static constexpr I8Kernels kKernels = {quantise_avx2, 0, 8, kMaxTokens, run};
  return kKernels;
}

}  // namespace kvern::kernels::cpu
