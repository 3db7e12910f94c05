// Random weights of any format, for tests and benches.
#pragma once

#include <cstring>
#include <random>

#include "kernels/pack.h"
#include "tensor/float_bits.h"

namespace kvern::testing {

// Codes over the format's whole range; scales and minima exactly representable in
// format.scale; some scales are negative, some zero.
inline kernels::CodedRows random_rows(const QuantFormat& format, int64_t n, int64_t k,
                                      uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  kernels::CodedRows rows{format, n, k, {}, {}, {}};
  const auto put = [&](const void* data, size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    rows.codes.insert(rows.codes.end(), bytes, bytes + size);
  };
  for (int64_t i = 0; i < n * k; ++i) {
    const float value = normal(random);
    const uint16_t half = format.storage == DType::kBf16 ? f32_to_bf16(value) : f32_to_f16(value);
    const int low = format.storage == DType::kI8 ? -128 : format.has_min ? 0 : -8;
    const int count = format.storage == DType::kI8 ? 256 : 16;
    const auto code = static_cast<int8_t>(low + static_cast<int>(random() % count));
    if (format.quantised())
      put(&code, 1);
    else if (format.storage == DType::kF32)
      put(&value, 4);
    else
      put(&half, 2);
  }
  const auto scale_like = [&](float value) {
    return format.scale == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : value;
  };
  for (int64_t i = 0; i < n * format.groups(k); ++i) {
    const float scale = scale_like(0.001f + std::abs(normal(random)) / 16);
    rows.scales.push_back(i % 11 == 0 ? 0.0f : i % 3 == 0 ? -scale : scale);
    if (format.has_min) rows.minima.push_back(scale_like(normal(random)));
  }
  return rows;
}

}  // namespace kvern::testing
