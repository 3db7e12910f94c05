#include "kernels/cpu/kv/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/float_bits.h"

namespace kvern::kernels::cpu {
namespace {

template <class T>
void store(std::byte* to, int64_t index, T value) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
T load(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Infinity where a value is not finite.
float largest_of(const float* x, int64_t count) {
  float largest = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return INFINITY;
    largest = std::max(largest, std::fabs(x[i]));
  }
  return largest;
}

void encode_group(DType storage, const float* x, int64_t count, std::byte* codes,
                  std::byte* scale) {
  const float inverse = write_scale(storage, largest_of(x, count), scale);
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = inverse == 0.0f ? 0.0f : x[i] * inverse;
    if (storage == DType::kI8) {
      const float code = std::clamp(std::nearbyint(scaled), -127.0f, 127.0f);
      store(codes, i, static_cast<int8_t>(code));
    } else {
      store(codes, i, f32_to_f8e4m3(scaled));
    }
  }
}

}  // namespace

float write_scale(DType storage, float largest, std::byte* scale) {
  constexpr uint16_t kNaN = 0x7e00;
  const float top = storage == DType::kI8 ? 127.0f : 448.0f;
  const bool finite = largest < INFINITY;
  const uint16_t bits = finite ? f32_to_f16(std::min(largest / top, 65504.0f)) : kNaN;
  store(scale, 0, bits);
  const float value = f16_to_f32(bits);
  return value > 0.0f ? 1.0f / value : 0.0f;
}

void encode_kv_plain(const KvRange& range, const float* x, std::byte* codes, std::byte* scales) {
  switch (range.storage) {
    case DType::kF32:
      std::memcpy(codes, x, static_cast<size_t>(range.dim) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < range.dim; ++i) store(codes, i, f32_to_f16(x[i]));
      return;
    case DType::kBf16:
      for (int64_t i = 0; i < range.dim; ++i) store(codes, i, f32_to_bf16(x[i]));
      return;
    default:
      for (int64_t i = 0; i < range.dim; i += range.group) {
        const int64_t count = std::min<int64_t>(range.group, range.dim - i);
        encode_group(range.storage, x + i, count, codes + i, scales + i / range.group * 2);
      }
  }
}

void decode_kv_plain(const KvRange& range, const std::byte* codes, const std::byte* scales,
                     float* y) {
  switch (range.storage) {
    case DType::kF32:
      std::memcpy(y, codes, static_cast<size_t>(range.dim) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < range.dim; ++i) y[i] = f16_to_f32(load<uint16_t>(codes, i));
      return;
    case DType::kBf16:
      for (int64_t i = 0; i < range.dim; ++i) y[i] = bf16_to_f32(load<uint16_t>(codes, i));
      return;
    default:
      for (int64_t i = 0; i < range.dim; ++i) {
        const float scale = f16_to_f32(load<uint16_t>(scales, i / range.group));
        const float code = range.storage == DType::kI8 ? static_cast<float>(load<int8_t>(codes, i))
                                                       : f8e4m3_to_f32(load<uint8_t>(codes, i));
        y[i] = scale * code;
      }
  }
}

}  // namespace kvern::kernels::cpu
