// Where things lie inside one packed tile of 16 rows, in bytes from the tile's start.
//
//   [scales: group][16 rows]  [minima: group][16 rows]  [codes: step][16 rows][4 bytes]
//
// Each plane is padded to 64 bytes, so every step of codes is one cache line. Scales right before
// the codes of their group would be one stream instead of three, but f16 scales would then split
// every second line of codes; not tried, since planes already read at 0.9 of the roof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/checked.h"
#include "kernels/pack.h"
#include "tensor/float_bits.h"
#include "tensor/quant_format.h"

namespace kvern::kernels {

inline constexpr int64_t kLineBytes = 64;

// Elements of K in the 4 bytes of a step.
inline int64_t elements_per_step(DType storage) {
  return 32 / dtype_bits(storage);
}

struct TileLayout {
  int64_t step_elements = 0;
  int64_t steps = 0;   // K padded to whole steps
  int64_t groups = 0;  // 0 for float storage
  int64_t steps_per_group = 0;
  int64_t scale_bytes = 0;  // of one scale or minimum: 2 | 4
  int64_t min_offset = 0;
  int64_t code_offset = 0;
  int64_t tile_bytes = 0;

  int64_t scale_at(int64_t group) const { return group * kTileRows * scale_bytes; }
  int64_t min_at(int64_t group) const { return min_offset + group * kTileRows * scale_bytes; }
  int64_t codes_at(int64_t step) const { return code_offset + step * kLineBytes; }
};

inline TileLayout tile_layout(const QuantFormat& format, int64_t k) {
  TileLayout l;
  l.step_elements = elements_per_step(format.storage);
  l.steps = ceil_div(k, l.step_elements);
  l.groups = format.groups(k);
  const bool whole_row = !format.quantised() || format.group == 0 || format.group >= k;
  l.steps_per_group = whole_row ? l.steps : format.group / l.step_elements;
  l.scale_bytes = dtype_bytes(format.scale, 1);
  const int64_t plane = align_up(l.groups * kTileRows * l.scale_bytes, kLineBytes);
  l.min_offset = plane;
  l.code_offset = plane * (format.has_min ? 2 : 1);
  l.tile_bytes = l.code_offset + l.steps * kLineBytes;
  return l;
}

inline float load_scale(DType type, const std::byte* from) {
  if (type == DType::kF32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return f16_to_f32(bits);
}

// Place of element `e` of an i4 step inside its 4 bytes: two words of four nibbles, word e % 2,
// nibble e / 2. A 16-bit shift by 4 p then leaves the pair (2p, 2p + 1) in the low nibbles of a
// row's two words, which is what a table look-up by words wants.
inline constexpr int nibble_byte(int64_t e) {
  return static_cast<int>(2 * (e % 2) + e / 4);
}
inline constexpr int nibble_shift(int64_t e) {
  return (e / 2) % 2 == 0 ? 0 : 4;
}

}  // namespace kvern::kernels
