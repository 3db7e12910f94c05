// Rules of ops whose outputs come from attributes and shapes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/tensor/infer.h"

namespace kvern::eval {
namespace {

Facts one(ElementType type, Shape shape) {
  return {{type, std::move(shape), nullptr}};
}

}  // namespace

Facts infer_constant(const InferCall& call) {
  const TensorNode& node = call.node;
  if (const Array* value = node.tensor("value")) return {{value->type(), value->shape(), value}};
  if (node.has("value_float")) return one(ElementType::kFloat, {});
  if (node.has("value_int")) return one(ElementType::kInt64, {});
  if (node.has("value_floats")) {
    return one(ElementType::kFloat, {static_cast<int64_t>(node.floats("value_floats").size())});
  }
  if (node.has("value_ints")) {
    return one(ElementType::kInt64, {static_cast<int64_t>(node.ints("value_ints").size())});
  }
  call.unsupported("constants of strings and sparse ones are not supported");
}

Facts infer_constant_of_shape(const InferCall& call) {
  const Array* value = call.node.tensor("value");
  const Shape shape = call.integers(0);
  call.count(shape);
  return one(value == nullptr ? ElementType::kFloat : value->type(), shape);
}

Facts infer_shape(const InferCall& call) {
  const int64_t rank = call.rank(0);
  const auto clamped = [&](int64_t at) {
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t start = clamped(call.node.i("start", 0));
  const int64_t end = clamped(call.node.i("end", rank));
  return one(ElementType::kInt64, {std::max<int64_t>(end - start, 0)});
}

Facts infer_size(const InferCall& call) {
  call.in(0);
  return one(ElementType::kInt64, {});
}

Facts infer_range(const InferCall& call) {
  double at[3];
  for (size_t i = 0; i < 3; ++i) {
    const Array& value = call.value(i);
    if (value.count() != 1) call.fail("start, limit and delta must be one number each");
    at[i] = ir::is_float(value.type()) ? value.to_f64()[0] : static_cast<double>(value.to_i64()[0]);
  }
  const double count = std::ceil((at[1] - at[0]) / at[2]);
  if (std::isnan(count) || count > 1e15) call.fail("the range does not end");
  return one(call.type(0), {static_cast<int64_t>(std::max(count, 0.0))});
}

Facts infer_eye_like(const InferCall& call) {
  return one(call.type_attr("dtype", call.type(0)), call.shape(0));
}

Facts infer_one_hot(const InferCall& call) {
  const Array& depth_value = call.value(1);
  if (depth_value.count() != 1) call.fail("depth must be one number");
  const int64_t depth = ir::is_float(depth_value.type())
                            ? static_cast<int64_t>(depth_value.to_f64()[0])
                            : depth_value.to_i64()[0];
  Shape shape = call.shape(0);
  shape.insert(shape.begin() + call.axis(call.node.i("axis", -1), call.rank(0) + 1), depth);
  call.count(shape);
  return one(call.type(2), shape);
}

}  // namespace kvern::eval
