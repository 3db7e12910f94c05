// Ops that make elements of nothing but shapes and scalars.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

Array filled(const Array& value, Shape shape) {
  Array out(value.type(), std::move(shape));
  if (out.count() == 0) return out;
  copy_strided(ir::element_bytes(value.type()), {out.count()}, value.bytes().data(), {0},
               out.mutable_bytes().data(), {1});
  return out;
}

}  // namespace

Arrays eval_constant(const OpCall& call) {
  const TensorNode& node = call.node;
  if (const Array* value = node.tensor("value")) return {*value};
  if (node.has("value_float")) {
    return {Array::scalar_f32(static_cast<float>(node.f("value_float", 0)))};
  }
  if (node.has("value_int")) return {Array::scalar_i64(node.i("value_int", 0))};
  if (node.has("value_ints")) return {Array::vector_i64(node.ints("value_ints"))};
  if (node.has("value_floats")) {
    const std::vector<double> values = node.floats("value_floats");
    const std::vector<float> floats(values.begin(), values.end());
    return {Array::of<float>(ElementType::kFloat, {static_cast<int64_t>(floats.size())}, floats)};
  }
  call.unsupported("a constant of strings or of a sparse tensor");
}

Arrays eval_constant_of_shape(const OpCall& call) {
  const Array* value = call.node.tensor("value");
  if (value != nullptr && value->count() != 1) call.fail("the value must be one element");
  return {filled(value == nullptr ? Array::scalar_f32(0) : *value, integers_of(call, 0))};
}

Arrays eval_range(const OpCall& call) {
  const ElementType type = call.in(0).type();
  for (size_t i = 0; i < 3; ++i) {
    if (call.in(i).type() != type || call.in(i).count() != 1) {
      call.fail("start, limit and delta must be scalars of one type");
    }
  }
  const Array start = widened(call.in(0)), limit = widened(call.in(1)), delta = widened(call.in(2));
  Array out;
  const bool known = visit_number(start.type(), [&]<class T>(T) {
    const T from = start.as<T>()[0], to = limit.as<T>()[0], by = delta.as<T>()[0];
    if (by == 0 || by != by) call.fail("delta is 0");
    const double steps =
        std::ceil((static_cast<double>(to) - static_cast<double>(from)) / static_cast<double>(by));
    if (!(steps < 4e9)) call.fail("the range is too long");
    out = Array(start.type(), {steps > 0 ? static_cast<int64_t>(steps) : 0});
    T value = from;
    for (int64_t i = 0; T & element : out.mutable_as<T>()) {
      if constexpr (std::is_floating_point_v<T>) value = from + static_cast<T>(i++) * by;
      element = value;
      value = wrapping(value, by, [](auto a, auto b) { return a + b; });
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(type)));
  return {narrowed(out, type)};
}

Arrays eval_eye_like(const OpCall& call) {
  const Array& x = call.in(0);
  if (x.rank() != 2) call.fail("a matrix is wanted");
  const auto type = static_cast<ElementType>(call.node.i("dtype", static_cast<int64_t>(x.type())));
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  const int64_t k = std::clamp<int64_t>(call.node.i("k", 0), -rows, columns);
  Array wide(is_half(type) ? ElementType::kFloat : type, x.shape());
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    const std::span<T> to = wide.mutable_as<T>();
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r) {
      to[static_cast<size_t>(r * columns + r + k)] = T{1};
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(type)));
  return {narrowed(wide, type)};
}

Arrays eval_one_hot(const OpCall& call) {
  const Array wide = widened(call.in(0));
  const Array& values = call.in(2);
  const Array depth_of = widened(call.in(1));
  if (values.count() != 2 || depth_of.count() != 1) {
    call.fail("depth must be a scalar and values two elements");
  }
  const auto number = [](const Array& array, int64_t i) {
    double out = 0;
    visit_number(array.type(), [&]<class T>(T) {
      out = static_cast<double>(array.as<T>()[static_cast<size_t>(i)]);
    });
    return out;
  };
  const double depth_value = number(depth_of, 0);
  if (!(depth_value >= 0 && depth_value < 4e9)) call.fail("depth is out of range");
  const auto depth = static_cast<int64_t>(depth_value);
  const int64_t axis = normal_axis(call, call.node.i("axis", -1), wide.rank() + 1);
  Shape shape = wide.shape();
  shape.insert(shape.begin() + axis, depth);
  Array out = filled(values.reshaped({2}), shape);  // values[0] everywhere
  if (out.count() == 0) return {out};
  const size_t bytes = ir::element_bytes(values.type());
  const std::byte* on = values.bytes().data() + bytes;
  std::byte* to = out.mutable_bytes().data();
  const int64_t inner = dense_strides(shape)[static_cast<size_t>(axis)];
  for (int64_t i = 0; i < wide.count(); ++i) {
    double index = std::trunc(number(wide, i));
    if (index < 0) index += static_cast<double>(depth);
    if (!(index >= 0 && index < static_cast<double>(depth))) continue;  // a row of values[0]
    const int64_t element = (i / inner * depth + static_cast<int64_t>(index)) * inner + i % inner;
    std::memcpy(to + static_cast<size_t>(element) * bytes, on, bytes);
  }
  return {out};
}

Arrays eval_non_zero(const OpCall& call) {
  const Array x = widened(call.in(0));
  std::vector<int64_t> found;
  const bool known = visit_number(x.type(), [&]<class T>(T) {
    const auto elements = x.as<T>();
    for (size_t i = 0; i < elements.size(); ++i) {
      if (elements[i] != 0) found.push_back(static_cast<int64_t>(i));
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
  const auto count = static_cast<int64_t>(found.size());
  Array out(ElementType::kInt64, {x.rank(), count});
  const std::span<int64_t> to = out.mutable_as<int64_t>();
  const Strides strides = dense_strides(x.shape());
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t rest = found[i];
    for (size_t d = 0; d < strides.size(); ++d) {
      to[d * found.size() + i] = rest / strides[d];
      rest %= strides[d];
    }
  }
  return {out};
}

}  // namespace kvern::eval
