// Any elementwise program (tensor/map_program.h) over rows: y[t, j] = program of the inputs at
// (t, j). All f32. It is what per-token arithmetic without a kernel of its own runs on.
// An input of `width` w below dim is stretched or repeated:
//   a row of the activations [rows, w]: y[t, j] reads x[t, j / (dim / w)] (one mean per head, or
//   row) a vector [w]:                       y[t, j] reads v[j % w]             (one gamma for
//   every head)
#pragma once

#include <array>

#include "kernels/family.h"
#include "tensor/map_program.h"

namespace kvern::kernels {

struct MapDesc {
  int64_t dim = 0;
  std::vector<int64_t> widths;   // of each input
  std::vector<int64_t> vectors;  // of each input: 1 a vector of the plan, 0 rows
  std::vector<int64_t> code;     // encode_map
  std::vector<double> constants;
  static constexpr auto fields() {
    return std::tuple{field(1, "dim", &MapDesc::dim), field(2, "widths", &MapDesc::widths),
                      field(3, "vectors", &MapDesc::vectors), field(4, "code", &MapDesc::code),
                      field(5, "constants", &MapDesc::constants)};
  }
};

struct MapArgs {
  struct Input {
    const float* data;  // [rows, width], or [width]
    int64_t stride;     // 0: a vector
  };
  std::array<Input, kMaxMapInputs> inputs;
  float* y;  // [rows, dim]; may be an input of width dim
  int64_t rows;
  int64_t y_stride;
  device::Stream* stream;
};

// Operands: the inputs; outputs y.
struct MapFamily {
  using Desc = MapDesc;
  using Args = MapArgs;
  static constexpr const char* kName = "map";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc& desc) { return static_cast<int64_t>(desc.widths.size()); }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
