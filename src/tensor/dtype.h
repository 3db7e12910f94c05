// Element types, and how many bytes a run of elements takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvern {

// Values are part of the plan format: never renumber.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kF8E4M3 = 3,
  kI8 = 4,
  kU8 = 5,
  kI4 = 6,  // two to a byte
  kI32 = 7,
  kI64 = 8,
  kBool = 9,
};
inline constexpr int kNumDTypes = 10;

// "f32", "f16", "bf16", "f8e4m3", "i8", "u8", "i4", "i32", "i64", "bool"; "unknown"
// (and 0 bits) for a value that is none of them.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
int dtype_bits(DType dtype);
inline int64_t dtype_bytes(DType dtype, int64_t count) {
  return (count * dtype_bits(dtype) + 7) / 8;
}
inline bool is_float(DType dtype) {
  return dtype <= DType::kF8E4M3;
}

}  // namespace kvern
