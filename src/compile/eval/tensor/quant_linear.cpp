// QuantizeLinear and DequantizeLinear with one scale, one per index of an axis or one per block of
// an axis, and DynamicQuantizeLinear. Types of 4 and 8 bits that are no integers: float8e4m3fn
// only.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/small_float.h"
#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::eval {
namespace {

// Which scale serves an element of x: `outer`, `axis` and `inner` are x's dims before, at and after
// the axis; `blocks` scales lie along the axis, each for `block` elements.
struct ScaleMap {
  int64_t outer = 1, axis = 1, inner = 1;
  int64_t blocks = 1, block = 1;
  bool per_block = false;  // scales have x's other dims too

  int64_t scale_of(int64_t o, int64_t a, int64_t i) const {
    const int64_t at = a / block;
    return per_block ? (o * blocks + at) * inner + i : at;
  }
};

ScaleMap scale_map(const OpCall& call, const Shape& x, const Array& scale) {
  ScaleMap map;
  if (scale.count() == 1 && scale.rank() <= 1) {
    for (const int64_t dim : x) map.inner *= dim;
    return map;
  }
  const int64_t axis = normal_axis(call, call.node.i("axis", 1), static_cast<int64_t>(x.size()));
  for (int64_t i = 0; i < axis; ++i) map.outer *= x[static_cast<size_t>(i)];
  map.axis = x[static_cast<size_t>(axis)];
  for (size_t i = static_cast<size_t>(axis) + 1; i < x.size(); ++i) map.inner *= x[i];
  Shape wanted = {map.axis};
  map.blocks = map.axis;
  const int64_t block = call.node.i("block_size", 0);
  if (block < 0) call.fail(fmt::format("block_size is {}", block));
  if (block > 0) {
    map.per_block = true;
    map.block = block;
    map.blocks = map.axis / block + (map.axis % block != 0 ? 1 : 0);
    wanted = x;
    wanted[static_cast<size_t>(axis)] = map.blocks;
  }
  if (scale.shape() != wanted) {
    call.fail(fmt::format("scales of shape {} do not fit x of {} along axis {}; wanted {}",
                          to_string(scale.shape()), to_string(x), axis, to_string(wanted)));
  }
  return map;
}

// fn(element of x, its scale), in order.
template <class Fn>
void for_each(const ScaleMap& map, Fn&& fn) {
  if (map.outer == 0 || map.axis == 0 || map.inner == 0) return;  // others may be huge
  size_t at = 0;
  for (int64_t o = 0; o < map.outer; ++o) {
    for (int64_t a = 0; a < map.axis; ++a) {
      for (int64_t i = 0; i < map.inner; ++i, ++at) {
        fn(at, static_cast<size_t>(map.scale_of(o, a, i)));
      }
    }
  }
}

struct Range {
  float least, most;
};

Range range_of(const OpCall& call, ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return {0, 255};
    case ElementType::kInt8:
      return {-128, 127};
    case ElementType::kUint16:
      return {0, 65535};
    case ElementType::kInt16:
      return {-32768, 32767};
    case ElementType::kUint4:
      return {0, 15};
    case ElementType::kInt4:
      return {-8, 7};
    default:
      call.unsupported(fmt::format("{} is not quantised to", ir::element_type_name(type)));
  }
}

// Codes of any type as numbers.
Array code_values(const OpCall& call, const Array& codes) {
  if (const SmallFloat* format = small_float_of(codes.type())) {
    Array out(ElementType::kFloat, codes.shape());
    const auto from = codes.as<uint8_t>();
    const auto to = out.mutable_as<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = decode(*format, from[i]);
    return out;
  }
  if (!ir::is_integer(codes.type())) {
    call.unsupported(fmt::format("{} is not dequantised", ir::element_type_name(codes.type())));
  }
  return to_floats(codes);
}

// Zero points as numbers, one per scale; zeros where they are left out.
std::vector<float> zero_points(const OpCall& call, size_t index, const Array& scale) {
  if (!call.has(index)) return std::vector<float>(static_cast<size_t>(scale.count()), 0.0F);
  const Array& given = call.in(index);
  if (given.count() != scale.count()) {
    call.fail(fmt::format("zero points of shape {} do not fit scales of {}",
                          to_string(given.shape()), to_string(scale.shape())));
  }
  const Array values = code_values(call, given);
  const auto floats = values.as<float>();
  return {floats.begin(), floats.end()};
}

ElementType type_attr(const OpCall& call, const char* name, ElementType otherwise) {
  const int64_t code = call.node.i(name, 0);
  if (code == 0) return otherwise;
  if (code < 0 || code > 100) call.fail(fmt::format("'{}' names the element type {}", name, code));
  return static_cast<ElementType>(code);
}

}  // namespace

Arrays eval_quantize(const OpCall& call) {
  const Array x = to_floats(call.in(0));
  const Array scale = floats_in(call, 1);
  const ScaleMap map = scale_map(call, x.shape(), scale);
  const ElementType type =
      call.has(2) ? call.in(2).type() : type_attr(call, "output_dtype", ElementType::kUint8);
  // The quotient is rounded to `precision`; without it, to the type of x.
  const ElementType by = type_attr(call, "precision", ElementType::kFloat);
  const SmallFloat* format = small_float_of(type);
  const Range range = format != nullptr ? Range{} : range_of(call, type);
  const std::vector<float> zeros = zero_points(call, 2, scale);
  Array out(type, x.shape());
  const auto from = x.as<float>();
  const auto scales = scale.as<float>();
  const auto quotient = [&](size_t i, size_t s) {
    const float exact = from[i] / scales[s];
    if (by == ElementType::kFloat16) return f16_to_f32(f32_to_f16(exact));
    if (by == ElementType::kBfloat16) return bf16_to_f32(f32_to_bf16(exact));
    return exact;
  };
  if (format != nullptr) {
    const bool saturate = call.node.i("saturate", 1) != 0;
    const auto to = out.mutable_as<uint8_t>();
    // Of four bits the standard adds the zero point, which makes 0 of -0; of eight it does not.
    const bool adds = type == ElementType::kFloat4E2M1;
    for_each(map, [&](size_t i, size_t s) {
      to[i] = encode(*format, adds ? quotient(i, s) + zeros[s] : quotient(i, s), saturate);
    });
    return {out};
  }
  visit_integer(type, [&]<class T>(T) {
    const auto to = out.mutable_as<T>();
    for_each(map, [&](size_t i, size_t s) {
      const float code = std::nearbyint(quotient(i, s)) + zeros[s];
      to[i] = std::isnan(code) ? T{0} : static_cast<T>(std::clamp(code, range.least, range.most));
    });
  });
  return {out};
}

Arrays eval_dequantize(const OpCall& call) {
  const Array& codes = call.in(0);
  const Array scale = floats_in(call, 1);
  const ScaleMap map = scale_map(call, codes.shape(), scale);
  const ElementType type = type_attr(call, "output_dtype", call.in(1).type());
  Array out(ElementType::kFloat, codes.shape());
  const auto to = out.mutable_as<float>();
  const auto scales = scale.as<float>();
  if (codes.type() == ElementType::kInt32) {  // accumulators: wider than a float is exact
    const auto from = codes.as<int32_t>();
    const auto zeros = integers_of(call, 2, std::vector<int64_t>(scales.size(), 0));
    if (zeros.size() != scales.size()) call.fail("zero points do not fit the scales");
    for_each(map, [&](size_t i, size_t s) {
      to[i] = static_cast<float>(from[i] - zeros[s]) * scales[s];
    });
    return {from_floats(out, type)};
  }
  const Array values = code_values(call, codes);
  const auto from = values.as<float>();
  const std::vector<float> zeros = zero_points(call, 2, scale);
  for_each(map, [&](size_t i, size_t s) { to[i] = (from[i] - zeros[s]) * scales[s]; });
  return {from_floats(out, type)};
}

Arrays eval_dynamic_quantize(const OpCall& call) {
  const Array x = floats_in(call, 0);
  float least = 0;
  float most = 0;
  for (const float value : x.as<float>()) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const float scale = most == least ? 1.0F : (most - least) / 255.0F;
  const float zero = std::nearbyint(std::clamp(-least / scale, 0.0F, 255.0F));
  Array out(ElementType::kUint8, x.shape());
  const auto from = x.as<float>();
  const auto to = out.mutable_as<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const float code = std::nearbyint(from[i] / scale) + zero;
    to[i] = std::isnan(code) ? uint8_t{0} : static_cast<uint8_t>(std::clamp(code, 0.0F, 255.0F));
  }
  const std::vector<uint8_t> zero_point = {static_cast<uint8_t>(zero)};
  return {out, Array::scalar_f32(scale), Array::of<uint8_t>(ElementType::kUint8, {}, zero_point)};
}

}  // namespace kvern::eval
