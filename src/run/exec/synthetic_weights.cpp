#include "run/exec/synthetic_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/philox.h"
#include "kernels/pack.h"
#include "tensor/float_bits.h"

namespace kvern::exec {
namespace {

// Largest value of a uniform distribution with variance 1/k.
float half_width(int64_t k) {
  return std::sqrt(3.0f / static_cast<float>(k));
}

void put_float(DType type, float value, std::byte* to) {
  const auto put = [&](auto bits) { std::memcpy(to, &bits, sizeof(bits)); };
  if (type == DType::kF32) return put(value);
  put(type == DType::kBf16 ? f32_to_bf16(value) : f32_to_f16(value));
}

// Numbers for sixteen rows at a time: pack() takes whole tiles, and a tile of k = 100,000 is small.
class TileSource {
 public:
  TileSource(const plan::Weight& weight, uint64_t seed)
      : format_(weight.format),
        n_(weight.shape[0]),
        k_(weight.shape[1]),
        key_(seed ^ hash64(weight.name)) {}

  kernels::CodedRows tile(int64_t first_row) const {
    kernels::CodedRows rows;
    rows.format = format_;
    rows.n = std::min(kernels::kTileRows, n_ - first_row);
    rows.k = k_;
    const int64_t count = rows.n * k_;
    const auto counter = static_cast<uint64_t>(first_row * k_);
    if (format_.quantised()) {
      fill_codes(rows, count, counter);
    } else {
      fill_floats(rows, count, counter);
    }
    return rows;
  }

 private:
  void fill_codes(kernels::CodedRows& rows, int64_t count, uint64_t counter) const {
    const bool wide = format_.storage == DType::kI8;
    const int levels = wide ? 127 : format_.has_min ? 15 : 7;
    rows.codes.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i += 8) {
      const uint64_t bits = philox64(key_, counter + static_cast<uint64_t>(i));
      for (int64_t j = 0; j < std::min<int64_t>(8, count - i); ++j) {
        const int byte = static_cast<int>(bits >> (8 * j) & 0xff);
        const int code =
            format_.has_min && !wide ? byte % (levels + 1) : byte % (2 * levels + 1) - levels;
        rows.codes[static_cast<size_t>(i + j)] = static_cast<std::byte>(code);
      }
    }
    const float scale = rounded(half_width(k_) / (format_.has_min && !wide ? 7.5f : levels));
    const auto groups = static_cast<size_t>(rows.n * format_.groups(k_));
    rows.scales.assign(groups, scale);
    if (format_.has_min) rows.minima.assign(groups, wide ? 0.0f : rounded(-half_width(k_)));
  }

  void fill_floats(kernels::CodedRows& rows, int64_t count, uint64_t counter) const {
    const auto size = static_cast<size_t>(dtype_bytes(format_.storage, 1));
    rows.codes.resize(static_cast<size_t>(count) * size);
    for (int64_t i = 0; i < count; i += 4) {
      const uint64_t bits = philox64(key_, counter + static_cast<uint64_t>(i));
      for (int64_t j = 0; j < std::min<int64_t>(4, count - i); ++j) {
        const auto part = static_cast<float>(bits >> (16 * j) & 0xffff);
        put_float(format_.storage, (part / 32767.5f - 1.0f) * half_width(k_),
                  rows.codes.data() + static_cast<size_t>(i + j) * size);
      }
    }
  }

  float rounded(float value) const {
    return format_.scale == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : value;
  }

  QuantFormat format_;
  int64_t n_, k_;
  uint64_t key_;
};

}  // namespace

void fill_synthetic(const plan::Weight& weight, uint64_t seed, std::span<std::byte> to) {
  KVERN_CHECK(to.size() == weight.size_bytes);
  if (weight.shape.size() == 1) {
    const float value = weight.name.ends_with(".bias") ? 0.0f : 1.0f;
    KVERN_CHECK(weight.format.storage == DType::kF32);
    std::fill_n(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float), value);
    return;
  }
  KVERN_CHECK(weight.packing != "dense", "weight '{}' is a dense matrix", weight.name);
  const TileSource source(weight, seed);
  const auto tile_bytes = static_cast<size_t>(
      kernels::packed_bytes(weight.format, kernels::kTileRows, weight.shape[1]));
  size_t at = 0;
  for (int64_t row = 0; row < weight.shape[0]; row += kernels::kTileRows) {
    const kernels::CodedRows rows = source.tile(row);
    kernels::pack(rows, to.subspan(at, tile_bytes));
    at += tile_bytes;
  }
  KVERN_CHECK(at == to.size(), "tiles of {} bytes do not make {}", tile_bytes, to.size());
}

}  // namespace kvern::exec
