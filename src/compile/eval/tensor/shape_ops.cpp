// Ops that change the shape alone; the elements are shared.
#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

// Axes of an attribute (old opsets) or of input 1.
std::vector<int64_t> axes_of(const OpCall& call) {
  return call.has(1) ? integers_of(call, 1) : call.node.ints("axes");
}

int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  int64_t out = 1;
  for (auto it = begin; it != end; ++it) out = wrapped_product(out, *it);
  return out;
}

}  // namespace

Arrays eval_shape(const OpCall& call) {
  const Shape& shape = call.in(0).shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = clamp(call.node.i("start", 0));
  const int64_t end = std::max(begin, clamp(call.node.i("end", rank)));
  return {Array::vector_i64({shape.begin() + begin, shape.begin() + end})};
}

Arrays eval_size(const OpCall& call) {
  return {Array::scalar_i64(call.in(0).count())};
}

Arrays eval_reshape(const OpCall& call) {
  const Array& x = call.in(0);
  Shape shape = call.has(1) ? integers_of(call, 1) : call.node.ints("shape");
  const bool allow_zero = call.node.i("allowzero", 0) != 0;
  const Shape wanted = shape;
  int64_t open = -1;
  uint64_t known = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && !allow_zero) {
      if (d >= x.shape().size()) {
        call.fail(
            fmt::format("{} copies dim {} of an input of rank {}", to_string(wanted), d, x.rank()));
      }
      shape[d] = x.shape()[d];
    }
    if (shape[d] == -1 && open < 0) {
      open = static_cast<int64_t>(d);
      continue;
    }
    const auto next =
        shape[d] < 0 ? std::nullopt : checked_mul(known, static_cast<uint64_t>(shape[d]));
    if (!next) call.fail(fmt::format("{} is not a shape", to_string(wanted)));
    known = *next;
  }
  const auto count = static_cast<uint64_t>(x.count());
  if (open >= 0 && known != 0 && count % known == 0) {
    shape[static_cast<size_t>(open)] = static_cast<int64_t>(count / known);
  } else if (open >= 0 || known != count) {
    call.fail(fmt::format("{} cannot be seen as {}", to_string(x.shape()), to_string(wanted)));
  }
  return {x.reshaped(std::move(shape))};
}

Arrays eval_flatten(const OpCall& call) {
  const Array& x = call.in(0);
  int64_t axis = call.node.i("axis", 1);
  if (axis != x.rank()) axis = normal_axis(call, axis, x.rank());
  const Shape& shape = x.shape();
  return {x.reshaped(
      {product(shape.begin(), shape.begin() + axis), product(shape.begin() + axis, shape.end())})};
}

Arrays eval_squeeze(const OpCall& call) {
  const Array& x = call.in(0);
  std::vector<bool> drop(x.shape().size(), false);
  const bool given = call.has(1) || call.node.has("axes");
  for (int64_t axis : axes_of(call)) {
    axis = normal_axis(call, axis, x.rank());
    if (x.shape()[static_cast<size_t>(axis)] != 1) {
      call.fail(fmt::format("dim {} of {} is not 1", axis, to_string(x.shape())));
    }
    drop[static_cast<size_t>(axis)] = true;
  }
  Shape shape;
  for (size_t d = 0; d < drop.size(); ++d) {
    const bool dropped = given ? drop[d] : x.shape()[d] == 1;
    if (!dropped) shape.push_back(x.shape()[d]);
  }
  return {x.reshaped(std::move(shape))};
}

Arrays eval_unsqueeze(const OpCall& call) {
  const Array& x = call.in(0);
  const std::vector<int64_t> axes = axes_of(call);
  const auto rank = x.rank() + static_cast<int64_t>(axes.size());
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(normal_axis(call, axis, rank));
    if (added[at]) call.fail(fmt::format("axis {} is given twice", axis));
    added[at] = true;
  }
  Shape shape;
  size_t next = 0;
  for (const bool one : added) shape.push_back(one ? 1 : x.shape()[next++]);
  return {x.reshaped(std::move(shape))};
}

Arrays eval_identity(const OpCall& call) {
  const bool dropout = call.node.op == "Dropout";
  if (dropout && call.has(2) && integers_of(call, 2) == std::vector<int64_t>{1}) {
    const std::vector<float> ratio = call.has(1) ? call.in(1).to_f32() : std::vector<float>{0.5f};
    if (ratio != std::vector<float>{0.0f}) call.unsupported("dropout while training");
  }
  Arrays out = {call.in(0)};
  if (!dropout || !call.node.has_output(1)) return out;
  Array mask(ElementType::kBool, call.in(0).shape());
  for (uint8_t& kept : mask.mutable_as<uint8_t>()) kept = 1;
  out.push_back(std::move(mask));
  return out;
}

}  // namespace kvern::eval
