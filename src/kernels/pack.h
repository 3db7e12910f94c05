// The packed forms of weights: one per storage type, for every CPU instruction set.
// Rows go in tiles of 16 and K in steps of 4 bytes, so that 64 bytes hold the same K step of 16
// rows:
//
//   f32 1, f16 and bf16 2, i8 4, i4 8 elements of K per step; [tile][step][16 rows][4 bytes]
//
// A quantised tile carries its scales and minima with it (kernels/cpu/pack/tile_layout.h says
// where). Rows beyond n and K beyond k are stored as zero codes. Sizes are exact and checked when a
// plan is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/quant_format.h"

namespace kvern::kernels {

inline constexpr int64_t kTileRows = 16;

// A weight before packing: codes row-major, one byte per integer code (also for i4), floats in
// their own bytes; scales and minima [n, groups] as f32 (exactly representable in format.scale).
struct CodedRows {
  QuantFormat format;
  int64_t n = 0;
  int64_t k = 0;
  std::vector<std::byte> codes;  // i8: int8 code; i4: int8 in [-8, 7], with minima [0, 15]
  std::vector<float> scales;
  std::vector<float> minima;
};

// Name of the packed form, kept in the plan: "tile16.k4b.1".
const char* packing_name(const QuantFormat& format);
// Throws Error(kInvalidPlan) unless kernels know the format and the sizes fit 64 bits.
void check_packable(const QuantFormat& format, int64_t n, int64_t k);
int64_t packed_bytes(const QuantFormat& format, int64_t n, int64_t k);
// to: packed_bytes(...) bytes, 64-byte aligned.
void pack(const CodedRows& rows, std::span<std::byte> to);
CodedRows unpack(const QuantFormat& format, int64_t n, int64_t k,
                 std::span<const std::byte> packed);
// Row r as f32 values [k]; scale * code (+ min) in f32, one rounding each.
void unpack_row(const QuantFormat& format, int64_t n, int64_t k, const std::byte* packed,
                int64_t row, float* to);

}  // namespace kvern::kernels
