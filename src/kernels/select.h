// y[t, i] = x[t, indices[i]]: columns picked, repeated or reordered. Indices come in runs of
// {start, count, stride}, so that a permutation of heads stays short.
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

struct SelectDesc {
  int64_t dim = 0;            // of x
  std::vector<int64_t> runs;  // start, count, stride, start, …; stride may be 0 or negative
  int64_t out_dim() const;    // the sum of counts, of a Desc that was validated
  static constexpr auto fields() {
    return std::tuple{field(1, "dim", &SelectDesc::dim), field(2, "runs", &SelectDesc::runs)};
  }
};

struct SelectArgs {
  const float* x;  // [rows, dim]
  float* y;        // [rows, out_dim]; not x
  int64_t rows;
  int64_t x_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs x; outputs y.
struct SelectFamily {
  using Desc = SelectDesc;
  using Args = SelectArgs;
  static constexpr const char* kName = "select";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 1; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
