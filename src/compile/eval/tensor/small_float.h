// Floats of 8 and 4 bits, one value at a time: what Cast needs of them.
#pragma once

#include <cstdint>

#include "compile/ir/array.h"

namespace kvern::eval {

struct SmallFloat {
  ir::ElementType type;
  int exponent_bits, mantissa_bits, bias;
  double largest;
  uint8_t nan;  // its code; of four bits, which have none, what the standard writes instead: -0
  bool has_infinity;
  bool one_zero;  // "fnuz": no -0, whose code is NaN
};

// nullptr for all other types.
const SmallFloat* small_float_of(ir::ElementType type);

float decode(const SmallFloat& format, uint8_t code);
// To nearest even. Beyond the largest value: that value when it saturates, otherwise infinity or
// NaN.
uint8_t encode(const SmallFloat& format, float value, bool saturate);

}  // namespace kvern::eval
