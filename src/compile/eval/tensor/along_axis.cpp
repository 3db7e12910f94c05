// ArgMax, ArgMin, TopK, CumSum and CumProd: each row along one axis by itself.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

[[noreturn]] void refuse_type(const OpCall& call, const Array& x) {
  call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
}

template <class T>
int64_t arg_extreme(const T* row, int64_t count, bool maximum, bool last) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    const bool better = maximum ? row[i] > row[best] : row[i] < row[best];
    if (better || (last && row[i] == row[best])) best = i;
  }
  return best;
}

int64_t wanted_k(const OpCall& call) {
  const std::vector<int64_t> k =
      call.has(1) ? integers_of(call, 1) : std::vector<int64_t>{call.node.i("k", -1)};
  if (k.size() != 1) call.fail("K must be one number");
  return k[0];
}

}  // namespace

Arrays eval_arg_extreme(const OpCall& call) {
  const Array wide = widened(call.in(0));
  const int64_t axis = normal_axis(call, call.node.i("axis", 0), wide.rank());
  const int64_t count = wide.shape()[static_cast<size_t>(axis)];
  const bool maximum = call.node.op == "ArgMax";
  const bool last = call.node.i("select_last_index", 0) != 0;
  Shape shape = wide.shape();
  shape[static_cast<size_t>(axis)] = 1;
  if (call.node.i("keepdims", 1) == 0) shape.erase(shape.begin() + axis);
  Array out(ElementType::kInt64, shape);
  if (count == 0 && out.count() != 0) call.fail("the axis is empty");
  const Array rows = axis_to_end(wide, axis);
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    const T* row = rows.as<T>().data();
    for (int64_t& y : out.mutable_as<int64_t>()) {
      y = arg_extreme(row, count, maximum, last);
      row += count;
    }
  });
  if (!known) refuse_type(call, wide);
  return {out};
}

Arrays eval_top_k(const OpCall& call) {
  const Array wide = widened(call.in(0));
  const int64_t axis = normal_axis(call, call.node.i("axis", -1), wide.rank());
  const int64_t count = wide.shape()[static_cast<size_t>(axis)];
  const int64_t k = wanted_k(call);
  if (k < 0 || k > count) call.fail(fmt::format("K is {} of {}", k, count));
  const bool largest = call.node.i("largest", 1) != 0;
  const Array rows = axis_to_end(wide, axis);
  Shape shape = rows.shape();
  shape.back() = k;
  Array values(wide.type(), shape);
  Array indices(ElementType::kInt64, shape);
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    if (values.count() == 0) return;  // `count` may be huge
    std::vector<int64_t> order(static_cast<size_t>(count));
    T* value = values.mutable_as<T>().data();
    int64_t* index = indices.mutable_as<int64_t>().data();
    const T* row = rows.as<T>().data();
    for (int64_t r = 0; r < values.count() / k; ++r, row += count) {
      std::iota(order.begin(), order.end(), 0);
      // NaN is last in both directions; equal values keep their order.
      const auto before = [&](int64_t a, int64_t b) {
        const T x = row[a], y = row[b];
        if (x != x || y != y) return x == x || (y != y && a < b);
        if (x != y) return largest ? x > y : x < y;
        return a < b;
      };
      std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
      for (int64_t i = 0; i < k; ++i) {
        *index++ = order[static_cast<size_t>(i)];
        *value++ = row[order[static_cast<size_t>(i)]];
      }
    }
  });
  if (!known) refuse_type(call, wide);
  return {narrowed(axis_from_end(values, axis), call.in(0).type()), axis_from_end(indices, axis)};
}

Arrays eval_cumulative(const OpCall& call) {
  const Array wide = widened(call.in(0));
  const std::vector<int64_t> axes = integers_of(call, 1);
  if (axes.size() != 1) call.fail("the axis must be one number");
  const int64_t axis = normal_axis(call, axes[0], wide.rank());
  const int64_t count = wide.shape()[static_cast<size_t>(axis)];
  const bool exclusive = call.node.i("exclusive", 0) != 0;
  const bool reverse = call.node.i("reverse", 0) != 0;
  const bool product = call.node.op == "CumProd";
  Array rows = axis_to_end(wide, axis);
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    T* row = rows.mutable_as<T>().data();
    for (int64_t begin = 0; begin < rows.count(); begin += count) {
      T total = product ? T{1} : T{0};
      for (int64_t i = 0; i < count; ++i) {
        T& at = row[begin + (reverse ? count - 1 - i : i)];
        const T before = total;
        total = product ? wrapping(total, at, [](auto a, auto b) { return a * b; })
                        : wrapping(total, at, [](auto a, auto b) { return a + b; });
        at = exclusive ? before : total;
      }
    }
  });
  if (!known) refuse_type(call, wide);
  return {narrowed(axis_from_end(rows, axis), call.in(0).type())};
}

}  // namespace kvern::eval
