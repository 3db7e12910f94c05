// Element types as C++ types, and half precision by way of f32.
#pragma once

#include <cstdint>
#include <type_traits>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

// An element that is only moved: layout ops know its size and nothing else.
template <size_t kBytes>
struct Opaque {
  unsigned char bytes[kBytes];
};

// Calls fn(Opaque<N>{}) for the N bytes of one element. False for a size that no type has.
template <class Fn>
bool visit_size(size_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(Opaque<1>{}), true;
    case 2:
      return fn(Opaque<2>{}), true;
    case 4:
      return fn(Opaque<4>{}), true;
    case 8:
      return fn(Opaque<8>{}), true;
    case 16:
      return fn(Opaque<16>{}), true;
    case 24:
      return fn(Opaque<24>{}), true;
    default:
      return false;
  }
}

// Calls fn(T{}) with the C++ type of a number that is computed with: float, double and integers;
// bool is uint8_t. False for all others, half precision among them.
template <class Fn>
bool visit_integer(ElementType type, Fn&& fn) {
  switch (type) {
    case ElementType::kInt64:
      return fn(int64_t{}), true;
    case ElementType::kInt32:
      return fn(int32_t{}), true;
    case ElementType::kInt16:
      return fn(int16_t{}), true;
    case ElementType::kInt8:
    case ElementType::kInt4:
      return fn(int8_t{}), true;
    case ElementType::kUint64:
      return fn(uint64_t{}), true;
    case ElementType::kUint32:
      return fn(uint32_t{}), true;
    case ElementType::kUint16:
      return fn(uint16_t{}), true;
    case ElementType::kUint8:
    case ElementType::kUint4:
    case ElementType::kBool:
      return fn(uint8_t{}), true;
    default:
      return false;
  }
}

template <class Fn>
bool visit_number(ElementType type, Fn&& fn) {
  if (type == ElementType::kFloat) return fn(float{}), true;
  if (type == ElementType::kDouble) return fn(double{}), true;
  return visit_integer(type, fn);
}

inline bool is_half(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

// Sums, differences and products that wrap as two's complement does, instead of being undefined.
template <class T, class Fn>
T wrapping(T a, T b, Fn fn) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(fn(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return fn(a, b);
  }
}

// The array in f32 when it is of half precision; otherwise itself.
Array widened(const Array& array);
// An f32 array as `type` (half precision: to nearest even); itself when it is of that type already.
Array narrowed(const Array& array, ElementType type);
// Axis -rank … rank-1 as 0 … rank-1. Throws naming the node.
int64_t normal_axis(const OpCall& call, int64_t axis, int64_t rank);
// Elements of an integer input: of one that is left out, `otherwise`.
std::vector<int64_t> integers_of(const OpCall& call, size_t index,
                                 std::vector<int64_t> otherwise = {});

}  // namespace kvern::eval
