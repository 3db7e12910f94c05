#include "tensor/dtype.h"

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

}  // namespace

std::string_view dtype_name(DType dtype) {
  return kInfo[static_cast<int>(dtype)].name;
}

int dtype_bits(DType dtype) {
  return kInfo[static_cast<int>(dtype)].bits;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace kvern
