// Cast, CastLike and BitCast.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/small_float.h"

namespace kvern::eval {
namespace {

// Rounds to f32 so that a second rounding to half precision is right: inexact results become odd.
float to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1) return nearest;
  const bool too_large = std::abs(static_cast<double>(nearest)) > std::abs(value);
  bits += too_large ? -1u : 1u;
  return std::bit_cast<float>(bits);
}

// Out of range is undefined in ONNX; this is what x86 and numpy give: the smallest integer, cut to
// the target's bits.
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    const auto wide = static_cast<double>(value);
    if (std::is_same_v<To, uint64_t> && wide >= kLimit && wide < 2 * kLimit) {
      return static_cast<To>(static_cast<uint64_t>(wide));
    }
    if (!(wide >= -kLimit && wide < kLimit)) {
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    }
    return static_cast<To>(static_cast<int64_t>(wide));
  } else {
    return static_cast<To>(value);
  }
}

template <class From>
Array cast_from(const OpCall& call, const Array& x, ElementType to) {
  if (to == ElementType::kBool) {
    return map_elements<From, uint8_t>(x, to, [](From v) -> uint8_t { return v != 0; });
  }
  if (is_half(to)) {
    const Array f32 = map_elements<From, float>(x, ElementType::kFloat, [](From v) {
      if constexpr (sizeof(From) < 4 || std::is_same_v<From, float>) {
        return static_cast<float>(v);
      } else {
        return to_odd(static_cast<double>(v));
      }
    });
    return narrowed(f32, to);
  }
  Array out;
  const bool known = visit_number(to, [&]<class To>(To) {
    out = map_elements<From, To>(x, to, [](From v) { return converted<To>(v); });
  });
  if (!known) call.unsupported(fmt::format("a cast to {}", ir::element_type_name(to)));
  return out;
}

// Integers of 4 bits keep their low bits, sign-extended: one byte each in an Array.
Array to_nibbles(Array bytes, ElementType to) {
  for (uint8_t& value : bytes.mutable_as<uint8_t>()) {
    value &= 0xf;
    if (to == ElementType::kInt4 && value >= 8) value |= 0xf0;
  }
  return bytes;
}

Array cast(const OpCall& call, const Array& x, ElementType to) {
  if (x.type() == to) return x;
  if (const SmallFloat* from = small_float_of(x.type())) {
    const Array f32 = map_elements<uint8_t, float>(
        x, ElementType::kFloat, [from](uint8_t code) { return decode(*from, code); });
    return cast(call, f32, to);
  }
  if (const SmallFloat* format = small_float_of(to)) {
    const bool saturate = call.node.i("saturate", 1) != 0;
    return map_elements<float, uint8_t>(cast(call, x, ElementType::kFloat), to, [&](float value) {
      return encode(*format, value, saturate);
    });
  }
  const Array wide = widened(x);
  Array out;
  const bool known =
      visit_number(wide.type(), [&]<class T>(T) { out = cast_from<T>(call, wide, to); });
  if (!known) call.unsupported(fmt::format("a cast of {}", ir::element_type_name(x.type())));
  if (to == ElementType::kInt4 || to == ElementType::kUint4) return to_nibbles(out, to);
  return out;
}

}  // namespace

Arrays eval_cast(const OpCall& call) {
  return {cast(call, call.in(0), static_cast<ElementType>(call.node.i("to", 0)))};
}

Arrays eval_cast_like(const OpCall& call) {
  return {cast(call, call.in(0), call.in(1).type())};
}

Arrays eval_bit_cast(const OpCall& call) {
  const Array& x = call.in(0);
  const auto to = static_cast<ElementType>(call.node.i("to", 0));
  if (ir::element_bytes(to) == 0 || ir::element_bytes(to) != ir::element_bytes(x.type())) {
    call.fail(fmt::format("{} and {} have different sizes", ir::element_type_name(x.type()),
                          ir::element_type_name(to)));
  }
  return {x.retyped(to)};
}

}  // namespace kvern::eval
