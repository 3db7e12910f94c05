#include "tensor/dtype.h"

#include <iterator>

namespace kvern {
namespace {

struct Info {
  std::string_view name;
  int bits;
};

constexpr Info kInfo[kNumDTypes] = {
    {"f32", 32}, {"f16", 16}, {"bf16", 16}, {"f8e4m3", 8}, {"i8", 8},
    {"u8", 8},   {"i4", 4},   {"i32", 32},  {"i64", 64},   {"bool", 8},
};

// A DType that came from a file may hold any byte.
Info info_of(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < std::size(kInfo) ? kInfo[index] : Info{"unknown", 0};
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  return info_of(dtype).name;
}

int dtype_bits(DType dtype) {
  return info_of(dtype).bits;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace kvern
