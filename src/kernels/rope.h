// Rotary position embedding, and the angles it turns by.
#pragma once

#include "kernels/family.h"

namespace kvern::kernels {

// cos[t,i] = cos(positions[t] * frequencies[i]), sin likewise; the product and both functions in
// f32.
struct RopeAnglesDesc {
  int64_t half_dim = 0;  // rotary_dim / 2
  static constexpr auto fields() {
    return std::tuple{field(1, "half_dim", &RopeAnglesDesc::half_dim)};
  }
};

struct RopeAnglesArgs {
  const int32_t* positions;  // [tokens]
  const float* frequencies;  // [half_dim]
  float* cos;                // [tokens, half_dim]
  float* sin;
  int64_t rows;
  device::Stream* stream;
};

// Operands: inputs positions, frequencies; outputs cos, sin (dense).
struct RopeAnglesFamily {
  using Desc = RopeAnglesDesc;
  using Args = RopeAnglesArgs;
  static constexpr const char* kName = "rope_angles";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 2; }
  static int64_t num_outputs(const Desc&) { return 2; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

// Turns the first rotary_dim elements of each head; the others pass through.
// Halves: (x[i], x[i + rotary_dim/2]); interleaved: (x[2i], x[2i + 1]).
struct RopeDesc {
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;
  bool interleaved = false;
  static constexpr auto fields() {
    return std::tuple{field(1, "heads", &RopeDesc::heads),
                      field(2, "head_dim", &RopeDesc::head_dim),
                      field(3, "rotary_dim", &RopeDesc::rotary_dim),
                      field(4, "interleaved", &RopeDesc::interleaved)};
  }
};

struct RopeArgs {
  const float* x;    // [tokens, heads * head_dim], rows x_stride apart
  const float* cos;  // [tokens, rotary_dim / 2]
  const float* sin;
  float* y;  // may be x
  int64_t rows;
  int64_t x_stride, y_stride;
  device::Stream* stream;
};

// Operands: inputs x, cos, sin; outputs y.
struct RopeFamily {
  using Desc = RopeDesc;
  using Args = RopeArgs;
  static constexpr const char* kName = "rope";
  static std::span<const Impl<Desc, Args>> table();
  static int64_t num_inputs(const Desc&) { return 3; }
  static int64_t num_outputs(const Desc&) { return 1; }
  static void validate(const Desc& desc);
  static Args bind(const Desc& desc, const Call& call);
};

}  // namespace kvern::kernels
