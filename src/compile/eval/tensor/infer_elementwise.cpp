// Rules of elementwise ops, norms and reductions.
#include <fmt/format.h>

#include <algorithm>

#include "compile/eval/tensor/infer.h"

namespace kvern::eval {
namespace {

TensorFact fact(ElementType type, Shape shape) {
  return {type, std::move(shape), nullptr};
}

Shape broadcast_all(const InferCall& call) {
  Shape shape = call.shape(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) shape = call.broadcast(shape, call.shape(i));
  return shape;
}

// The shape with dims from `axis` on set to 1.
Shape flat_from(Shape shape, int64_t axis) {
  for (size_t i = static_cast<size_t>(axis); i < shape.size(); ++i) shape[i] = 1;
  return shape;
}

}  // namespace

Facts infer_same(const InferCall& call) {
  TensorFact out = fact(call.type(0), call.shape(0));
  if (call.node.op == "Identity") out.value = call.in(0).value;
  return {out};
}

Facts infer_same_as_bool(const InferCall& call) {
  return {fact(ElementType::kBool, call.shape(0))};
}

Facts infer_broadcast(const InferCall& call) {
  return {fact(call.type(0), broadcast_all(call))};
}

Facts infer_compare(const InferCall& call) {
  return {fact(ElementType::kBool, broadcast_all(call))};
}

Facts infer_where(const InferCall& call) {
  call.in(2);
  return {fact(call.type(1), broadcast_all(call))};
}

Facts infer_cast(const InferCall& call) {
  return {fact(call.type_attr("to", ElementType::kUndefined), call.shape(0))};
}

Facts infer_cast_like(const InferCall& call) {
  return {fact(call.type(1), call.shape(0))};
}

Facts infer_dropout(const InferCall& call) {
  const bool bool_mask = call.node.opset >= 10;  // before, the mask was of the data's type
  return {fact(call.type(0), call.shape(0)),
          fact(bool_mask ? ElementType::kBool : call.type(0), call.shape(0))};
}

Facts infer_layer_norm(const InferCall& call) {
  const Shape& shape = call.shape(0);
  const int64_t axis = call.axis(call.node.i("axis", -1), call.rank(0));
  const ElementType stash = call.type_attr("stash_type", ElementType::kFloat);
  const Shape flat = flat_from(shape, axis);
  return {fact(call.type(0), shape), fact(stash, flat), fact(stash, flat)};
}

Facts infer_rms_norm(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", -1), call.rank(0));
  const ElementType stash = call.type_attr("stash_type", ElementType::kFloat);
  return {fact(call.type(1), call.shape(0)), fact(stash, flat_from(call.shape(0), axis))};
}

Facts infer_skip_norm(const InferCall& call) {
  call.want_rank(0, 1, 8);
  const Shape flat = flat_from(call.shape(0), call.rank(0) - 1);
  const Shape sum = call.broadcast(call.shape(0), call.shape(1));
  if (sum != call.shape(0)) call.fail("the skip input is larger than the first one");
  return {fact(call.type(0), sum), fact(ElementType::kFloat, flat), fact(ElementType::kFloat, flat),
          fact(call.type(0), sum)};
}

Facts infer_reduce(const InferCall& call) {
  const auto axes = call.attr_or_input("axes", 1);
  const bool all = !axes || axes->empty();
  if (all && call.node.i("noop_with_empty_axes", 0) != 0) return infer_same(call);
  const int64_t rank = call.rank(0);
  std::vector<bool> gone(static_cast<size_t>(rank), all);
  if (!all) {
    for (const int64_t axis : *axes) gone[static_cast<size_t>(call.axis(axis, rank))] = true;
  }
  const bool keep = call.node.i("keepdims", 1) != 0;
  Shape shape;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) shape.push_back(call.shape(0)[i]);
    if (gone[i] && keep) shape.push_back(1);
  }
  return {fact(call.type(0), shape)};
}

Facts infer_arg_extreme(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", 0), call.rank(0));
  Shape shape = call.shape(0);
  if (call.node.i("keepdims", 1) != 0) {
    shape[static_cast<size_t>(axis)] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return {fact(ElementType::kInt64, shape)};
}

Facts infer_top_k(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", -1), call.rank(0));
  Shape shape = call.shape(0);
  int64_t k = call.node.i("k", -1);
  if (!call.node.has("k")) {
    const auto given = call.integers(1);
    if (given.size() != 1) call.fail("k must be one number");
    k = given[0];
  }
  if (k < 0 || k > shape[static_cast<size_t>(axis)]) {
    call.fail(fmt::format("k is {}, of an axis of {}", k, shape[static_cast<size_t>(axis)]));
  }
  shape[static_cast<size_t>(axis)] = k;
  return {fact(call.type(0), shape), fact(ElementType::kInt64, shape)};
}

}  // namespace kvern::eval
