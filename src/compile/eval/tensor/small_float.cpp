#include "compile/eval/tensor/small_float.h"

#include <cmath>
#include <limits>

namespace kvern::eval {
namespace {

using ir::ElementType;

constexpr SmallFloat kFormats[] = {
    {ElementType::kFloat8E4M3Fn, 4, 3, 7, 448, 0x7f, false, false},
    {ElementType::kFloat8E4M3Fnuz, 4, 3, 8, 240, 0x80, false, true},
    {ElementType::kFloat8E5M2, 5, 2, 15, 57344, 0x7e, true, false},
    {ElementType::kFloat8E5M2Fnuz, 5, 2, 16, 57344, 0x80, false, true},
    {ElementType::kFloat4E2M1, 2, 1, 1, 6, 0x8, false, false},
};

}  // namespace

const SmallFloat* small_float_of(ElementType type) {
  for (const SmallFloat& format : kFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

float decode(const SmallFloat& f, uint8_t code) {
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const double sign = (code >> sign_at) & 1 ? -1 : 1;
  const int exponent = (code >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  if (f.one_zero && code == f.nan) return std::numeric_limits<float>::quiet_NaN();
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                                     : std::ldexp(mantissa + (1 << f.mantissa_bits),
                                                  exponent - f.bias - f.mantissa_bits);
  if (value > f.largest) {
    return f.has_infinity && mantissa == 0
               ? static_cast<float>(sign * std::numeric_limits<double>::infinity())
               : std::numeric_limits<float>::quiet_NaN();
  }
  return static_cast<float>(sign * value);
}

uint8_t encode(const SmallFloat& f, float value, bool saturate) {
  const int sign_at = f.exponent_bits + f.mantissa_bits;
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 1 << sign_at : 0);
  if (std::isnan(value)) return f.one_zero ? f.nan : static_cast<uint8_t>(f.nan | sign);
  double size = std::abs(static_cast<double>(value));
  if (std::isfinite(size) && size != 0) {
    const int exponent = std::max(std::ilogb(size), 1 - f.bias);
    const double quantum = std::ldexp(1.0, exponent - f.mantissa_bits);
    size = std::nearbyint(size / quantum) * quantum;
  }
  if (size > f.largest) {
    if (saturate || f.type == ElementType::kFloat4E2M1) {
      size = f.largest;
    } else if (f.has_infinity) {
      return static_cast<uint8_t>(sign | (((1 << f.exponent_bits) - 1) << f.mantissa_bits));
    } else {
      return f.one_zero ? f.nan : static_cast<uint8_t>(f.nan | sign);
    }
  }
  if (size == 0) return f.one_zero ? 0 : sign;
  const int exponent = std::ilogb(size);
  if (exponent < 1 - f.bias) {
    const auto mantissa = static_cast<int>(std::ldexp(size, f.bias - 1 + f.mantissa_bits));
    return static_cast<uint8_t>(sign | mantissa);
  }
  const auto mantissa =
      static_cast<int>(std::ldexp(size, f.mantissa_bits - exponent)) - (1 << f.mantissa_bits);
  return static_cast<uint8_t>(sign | ((exponent + f.bias) << f.mantissa_bits) | mantissa);
}

}  // namespace kvern::eval
