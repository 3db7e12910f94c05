// How the rows of a weight are stored, and how K and V are stored in pages.
#pragma once

#include <string>

#include "base/fields.h"
#include "tensor/dtype.h"

namespace kvern {

// Float storage (f32, f16, bf16): the value itself. Integer storage: codes in groups along a row,
//   value = scale * code          code signed: i8 in [-128, 127], i4 in [-8, 7]
//   value = scale * code + min    code: i8 signed, i4 unsigned in [0, 15]; computed in f32
struct QuantFormat {
  DType storage = DType::kF32;
  int32_t group = 0;          // elements of a row that share a scale; 0 = the whole row
  DType scale = DType::kF16;  // f16 | f32: type of scales and minima
  bool has_min = false;

  bool quantised() const { return storage == DType::kI8 || storage == DType::kI4; }
  // Groups in a row of `cols` elements; the last one may be shorter. 0 for float storage.
  int64_t groups(int64_t cols) const {
    if (!quantised()) return 0;
    return group == 0 ? 1 : (cols + group - 1) / group;
  }
  friend bool operator==(const QuantFormat&, const QuantFormat&) = default;
  static constexpr auto fields() {
    return std::tuple{
        field(1, "storage", &QuantFormat::storage), field(2, "group", &QuantFormat::group),
        field(3, "scale", &QuantFormat::scale), field(4, "has_min", &QuantFormat::has_min)};
  }
};

// "bf16", "i4 g32 f16 min", …
std::string to_string(const QuantFormat& format);

// Bytes per weight element, scales and minima included; 4.5/8 for i4 g32 f16.
double bytes_per_element(const QuantFormat& format);

// Storage of K or V in a page: codes [token][dim], then for i8 and f8e4m3 one f16 scale per `group`
// elements of a head, made when the token is written.
struct KvFormat {
  DType storage = DType::kBf16;  // f32 | f16 | bf16 | i8 | f8e4m3
  int32_t group = 32;            // used by i8 and f8e4m3 only

  bool quantised() const { return storage == DType::kI8 || storage == DType::kF8E4M3; }
  int64_t groups(int64_t dim) const { return quantised() ? (dim + group - 1) / group : 0; }
  friend bool operator==(const KvFormat&, const KvFormat&) = default;
  static constexpr auto fields() {
    return std::tuple{field(1, "storage", &KvFormat::storage), field(2, "group", &KvFormat::group)};
  }
};

}  // namespace kvern
