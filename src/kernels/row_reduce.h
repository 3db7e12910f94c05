// y[t, g] = the sum, mean, mean of squares, largest or smallest element of group g of row t; groups
// are equal stretches of the row. With map, which stretches y over the row again, it makes any
// norm.
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

enum class ReduceKind : uint8_t { kSum = 0, kMean = 1, kMeanSquare = 2, kMax = 3, kMin = 4 };

struct RowReduceDesc {
  int64_t dim = 0;     // of x
  int64_t groups = 1;  // of a row
  ReduceKind kind = ReduceKind::kSum;
  static constexpr auto fields() {
    return std::tuple{field(1, "dim", &RowReduceDesc::dim),
                      field(2, "groups", &RowReduceDesc::groups),
                      field(3, "kind", &RowReduceDesc::kind)};
  }
};

struct RowReduceArgs {
  const float* x;  // [rows, dim]
  float* y;        // [rows, groups]; not x
  int64_t rows;
  int64_t x_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs x; outputs y.
struct RowReduceFamily {
  using Desc = RowReduceDesc;
  using Args = RowReduceArgs;
  static constexpr const char* kName = "row_reduce";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 1; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
