#include "kernels/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/pack/tile_layout.h"

namespace kvern::kernels {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 31;

void store_scale(DType type, float value, std::byte* to) {
  if (type == DType::kF32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// Elements of kSize bytes between a row and its column of a tile; `tile` is the row's 4 bytes of
// step 0.
template <int kSize>
void copy_to_tile(const std::byte* row, int64_t k, std::byte* tile) {
  constexpr int64_t kPerStep = 4 / kSize;
  for (int64_t i = 0; i < k; ++i) {
    std::memcpy(tile + i / kPerStep * kLineBytes + i % kPerStep * kSize, row + i * kSize, kSize);
  }
}

template <int kSize>
void copy_from_tile(const std::byte* tile, int64_t k, std::byte* row) {
  constexpr int64_t kPerStep = 4 / kSize;
  for (int64_t i = 0; i < k; ++i) {
    std::memcpy(row + i * kSize, tile + i / kPerStep * kLineBytes + i % kPerStep * kSize, kSize);
  }
}

void pack_codes(DType storage, const std::byte* from, int64_t k, std::byte* to) {
  if (storage == DType::kI4) {
    for (int64_t i = 0; i < k; ++i) {
      const auto nibble = static_cast<unsigned>(from[i]) & 15u;
      to[i / 8 * kLineBytes + nibble_byte(i % 8)] |= std::byte(nibble << nibble_shift(i % 8));
    }
  } else if (storage == DType::kI8) {
    copy_to_tile<1>(from, k, to);
  } else if (storage == DType::kF32) {
    copy_to_tile<4>(from, k, to);
  } else {
    copy_to_tile<2>(from, k, to);
  }
}

void unpack_codes(const QuantFormat& format, const std::byte* from, int64_t k, std::byte* to) {
  if (format.storage == DType::kI4) {
    for (int64_t i = 0; i < k; ++i) {
      const auto byte = static_cast<int>(from[i / 8 * kLineBytes + nibble_byte(i % 8)]);
      const int nibble = (byte >> nibble_shift(i % 8)) & 15;
      to[i] = static_cast<std::byte>(!format.has_min && nibble > 7 ? nibble - 16 : nibble);
    }
  } else if (format.storage == DType::kI8) {
    copy_from_tile<1>(from, k, to);
  } else if (format.storage == DType::kF32) {
    copy_from_tile<4>(from, k, to);
  } else {
    copy_from_tile<2>(from, k, to);
  }
}

float code_value(DType storage, const std::byte* codes, int64_t i) {
  uint16_t half = 0;
  float value = 0;
  switch (storage) {
    case DType::kF32:
      std::memcpy(&value, codes + i * 4, sizeof(value));
      return value;
    case DType::kF16:
      std::memcpy(&half, codes + i * 2, sizeof(half));
      return f16_to_f32(half);
    case DType::kBf16:
      std::memcpy(&half, codes + i * 2, sizeof(half));
      return bf16_to_f32(half);
    default:
      return static_cast<float>(static_cast<int8_t>(codes[i]));
  }
}

int64_t bytes_per_code(const QuantFormat& format) {
  return format.quantised() ? 1 : dtype_bytes(format.storage, 1);
}

}  // namespace

const char* packing_name(const QuantFormat& /*format*/) {
  return "tile16.k4b.1";
}

void check_packable(const QuantFormat& format, int64_t n, int64_t k) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::kInvalidPlan,
                fmt::format("weight [{}, {}] as {}: {}", n, k, to_string(format), what));
  };
  const bool floating = format.storage == DType::kF32 || format.storage == DType::kF16 ||
                        format.storage == DType::kBf16;
  if (!floating && !format.quantised()) refuse("storage must be f32, f16, bf16, i8 or i4");
  if (format.scale != DType::kF16 && format.scale != DType::kF32) refuse("scales are f16 or f32");
  if (n < 1 || k < 1 || n > kMaxDim || k > kMaxDim) refuse("sizes must be 1 to 2^31");
  if (!format.quantised()) {
    if (format.has_min) refuse("float storage has no minima");
    return;
  }
  constexpr int32_t kGroups[] = {0, 16, 32, 64, 128};
  if (std::find(std::begin(kGroups), std::end(kGroups), format.group) == std::end(kGroups)) {
    refuse("groups must be 16, 32, 64, 128 or 0 (the whole row)");
  }
}

int64_t packed_bytes(const QuantFormat& format, int64_t n, int64_t k) {
  check_packable(format, n, k);  // n, k <= 2^31: the product below fits
  const auto tile = static_cast<uint64_t>(tile_layout(format, k).tile_bytes);
  const auto total = checked_mul(tile, static_cast<uint64_t>(ceil_div(n, kTileRows)));
  if (!total || *total > INT64_MAX) {
    throw Error(Code::kInvalidPlan, fmt::format("weight [{}, {}]: more than 2^63 bytes", n, k));
  }
  return static_cast<int64_t>(*total);
}

void pack(const CodedRows& rows, std::span<std::byte> to) {
  const QuantFormat& f = rows.format;
  KVERN_CHECK(static_cast<int64_t>(to.size()) == packed_bytes(f, rows.n, rows.k),
              "pack: {} bytes given, {} wanted", to.size(), packed_bytes(f, rows.n, rows.k));
  const TileLayout l = tile_layout(f, rows.k);
  const int64_t row_bytes = rows.k * bytes_per_code(f);
  const auto scales = static_cast<size_t>(rows.n * l.groups);
  KVERN_CHECK(static_cast<int64_t>(rows.codes.size()) == rows.n * row_bytes,
              "pack: {} bytes of codes for [{}, {}] {}", rows.codes.size(), rows.n, rows.k,
              to_string(f));
  KVERN_CHECK(rows.scales.size() == scales && rows.minima.size() == (f.has_min ? scales : 0),
              "pack: {} scales and {} minima, {} wanted", rows.scales.size(), rows.minima.size(),
              scales);
  std::memset(to.data(), 0, to.size());
  for (int64_t row = 0; row < rows.n; ++row) {
    std::byte* tile = to.data() + row / kTileRows * l.tile_bytes;
    const int64_t lane = row % kTileRows;
    pack_codes(f.storage, rows.codes.data() + row * row_bytes, rows.k,
               tile + l.code_offset + lane * 4);
    for (int64_t g = 0; g < l.groups; ++g) {
      const auto i = static_cast<size_t>(row * l.groups + g);
      store_scale(f.scale, rows.scales[i], tile + l.scale_at(g) + lane * l.scale_bytes);
      if (f.has_min)
        store_scale(f.scale, rows.minima[i], tile + l.min_at(g) + lane * l.scale_bytes);
    }
  }
}

CodedRows unpack(const QuantFormat& format, int64_t n, int64_t k,
                 std::span<const std::byte> packed) {
  KVERN_CHECK(static_cast<int64_t>(packed.size()) == packed_bytes(format, n, k),
              "unpack: {} bytes given, {} wanted", packed.size(), packed_bytes(format, n, k));
  const TileLayout l = tile_layout(format, k);
  const int64_t row_bytes = k * bytes_per_code(format);
  CodedRows rows{format, n, k, {}, {}, {}};
  rows.codes.resize(static_cast<size_t>(n * row_bytes));
  rows.scales.reserve(static_cast<size_t>(n * l.groups));
  for (int64_t row = 0; row < n; ++row) {
    const std::byte* tile = packed.data() + row / kTileRows * l.tile_bytes;
    const int64_t lane = row % kTileRows;
    unpack_codes(format, tile + l.code_offset + lane * 4, k, rows.codes.data() + row * row_bytes);
    for (int64_t g = 0; g < l.groups; ++g) {
      const int64_t at = lane * l.scale_bytes;
      rows.scales.push_back(load_scale(format.scale, tile + l.scale_at(g) + at));
      if (format.has_min) {
        rows.minima.push_back(load_scale(format.scale, tile + l.min_at(g) + at));
      }
    }
  }
  return rows;
}

void unpack_row(const QuantFormat& format, int64_t n, int64_t k, const std::byte* packed,
                int64_t row, float* to) {
  KVERN_CHECK(row >= 0 && row < n, "unpack_row: row {} of {}", row, n);
  const TileLayout l = tile_layout(format, k);
  const std::byte* tile = packed + row / kTileRows * l.tile_bytes;
  const int64_t lane = row % kTileRows;
  constexpr int64_t kChunk = 128;  // divides by every step; a multiple of every group
  std::byte codes[kChunk * 4];
  for (int64_t start = 0; start < k; start += kChunk) {
    const int64_t count = std::min(kChunk, k - start);
    unpack_codes(format, tile + l.codes_at(start / l.step_elements) + lane * 4, count, codes);
    for (int64_t i = 0; i < count; ++i) {
      to[start + i] = code_value(format.storage, codes, i);
    }
  }
  for (int64_t g = 0; g < l.groups; ++g) {
    const int64_t begin = g * l.steps_per_group * l.step_elements;
    const int64_t end = std::min(k, begin + l.steps_per_group * l.step_elements);
    const int64_t at = lane * l.scale_bytes;
    const float scale = load_scale(format.scale, tile + l.scale_at(g) + at);
    const float min = format.has_min ? load_scale(format.scale, tile + l.min_at(g) + at) : 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      to[i] = scale * to[i];
      if (format.has_min) to[i] += min;
    }
  }
}

}  // namespace kvern::kernels
