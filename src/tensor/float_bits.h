// bf16, f16 and f8e4m3 to and from f32, one value at a time, round to nearest even.
// Kernels have vector forms; these are what the vector forms are tested against.
#pragma once

#include <bit>
#include <cstdint>

namespace kvern {

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
// e4m3 "fn": no infinity, 0x7f and 0xff are NaN; values beyond 448 saturate.
float f8e4m3_to_f32(uint8_t bits);
uint8_t f32_to_f8e4m3(float value);

}  // namespace kvern
