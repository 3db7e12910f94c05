// Packed codes to f32. Always inlined, so that each caller's target attribute vectorises it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/pack/tile_layout.h"

namespace kvern::kernels::cpu {

// Exact for every f16 but signalling NaN; a table or a call per element would not vectorise.
[[gnu::always_inline]] inline float f16_lane(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  uint32_t out = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if (magnitude >= 0x0f800000u) out = magnitude | 0x7f800000u;  // infinity, NaN
  return std::bit_cast<float>(out | (bits & 0x8000u) << 16);
}

// Element e (of the storage's elements per step) in a row's 4 bytes, before any scale.
template <DType kStorage, bool kUnsigned>
[[gnu::always_inline]] inline float element_of(uint32_t word, int e) {
  if constexpr (kStorage == DType::kF32) return std::bit_cast<float>(word);
  if constexpr (kStorage == DType::kBf16) return std::bit_cast<float>(word >> (16 * e) << 16);
  if constexpr (kStorage == DType::kF16) return f16_lane(word >> (16 * e) & 0xffffu);
  if constexpr (kStorage == DType::kI8) {
    return static_cast<float>(static_cast<int32_t>(word << (24 - 8 * e)) >> 24);
  }
  const int bit = 8 * nibble_byte(e) + nibble_shift(e);
  if constexpr (kUnsigned) return static_cast<float>(static_cast<int32_t>(word >> bit & 15u));
  return static_cast<float>(static_cast<int32_t>(word << (28 - bit)) >> 28);
}

template <DType kStorage, bool kMin>
[[gnu::always_inline]] inline void expand_steps(const std::byte* codes, int64_t steps,
                                                const float* scale, const float* min, float* to) {
  constexpr int kElements = 32 / (kStorage == DType::kI4                                ? 4
                                  : kStorage == DType::kI8                              ? 8
                                  : kStorage == DType::kF16 || kStorage == DType::kBf16 ? 16
                                                                                        : 32);
  constexpr bool kScaled = kStorage == DType::kI4 || kStorage == DType::kI8;
  for (int64_t step = 0; step < steps; ++step) {
    uint32_t words[kTileRows];
    std::memcpy(words, codes + step * kLineBytes, sizeof(words));
    for (int e = 0; e < kElements; ++e) {
      float* out = to + (step * kElements + e) * kTileRows;
      for (int64_t lane = 0; lane < kTileRows; ++lane) {
        float value = element_of<kStorage, kMin>(words[lane], e);
        if constexpr (kScaled) value = scale[lane] * value;
        if constexpr (kMin) value = value + min[lane];
        out[lane] = value;
      }
    }
  }
}

template <DType kStorage, bool kMin>
[[gnu::always_inline]] inline void expand_groups(const QuantFormat& format, const TileLayout& l,
                                                 const std::byte* tile, int64_t begin, int64_t end,
                                                 float* to) {
  for (int64_t step = begin; step < end;) {
    const int64_t group = step / l.steps_per_group;
    const int64_t last = std::min(end, (group + 1) * l.steps_per_group);
    float scale[kTileRows] = {};
    float min[kTileRows] = {};
    for (int64_t lane = 0; lane < kTileRows && l.groups > 0; ++lane) {
      const int64_t at = lane * l.scale_bytes;
      scale[lane] = load_scale(format.scale, tile + l.scale_at(group) + at);
      if (kMin) min[lane] = load_scale(format.scale, tile + l.min_at(group) + at);
    }
    expand_steps<kStorage, kMin>(tile + l.codes_at(step), last - step, scale, min, to);
    to += (last - step) * l.step_elements * kTileRows;
    step = last;
  }
}

[[gnu::always_inline]] inline void expand_f32(const QuantFormat& format, const TileLayout& l,
                                              const std::byte* tile, int64_t begin, int64_t end,
                                              float* to) {
  switch (format.storage) {
    case DType::kF32:
      return expand_groups<DType::kF32, false>(format, l, tile, begin, end, to);
    case DType::kF16:
      return expand_groups<DType::kF16, false>(format, l, tile, begin, end, to);
    case DType::kBf16:
      return expand_groups<DType::kBf16, false>(format, l, tile, begin, end, to);
    case DType::kI8:
      return format.has_min ? expand_groups<DType::kI8, true>(format, l, tile, begin, end, to)
                            : expand_groups<DType::kI8, false>(format, l, tile, begin, end, to);
    default:
      return format.has_min ? expand_groups<DType::kI4, true>(format, l, tile, begin, end, to)
                            : expand_groups<DType::kI4, false>(format, l, tile, begin, end, to);
  }
}

}  // namespace kvern::kernels::cpu
