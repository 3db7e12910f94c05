// ReduceSum and its relatives. Reduced dims are moved to the end, so that each result is one row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

// Sums of floats are made in f64, in eight lanes of which each takes every eighth element.
template <class T, class Fn>
auto sum_of(const T* x, int64_t count, Fn fn) {
  if constexpr (std::is_floating_point_v<T>) {
    double lanes[8] = {};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      for (int lane = 0; lane < 8; ++lane) lanes[lane] += fn(static_cast<double>(x[i + lane]));
    }
    for (; i < count; ++i) lanes[i % 8] += fn(static_cast<double>(x[i]));
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  } else {
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<uint64_t>(fn(x[i]));
    return static_cast<T>(sum);
  }
}

template <class T>
T log_sum_exp(const T* x, int64_t count) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) top = std::max(top, static_cast<double>(x[i]));
  if (!std::isfinite(top)) return static_cast<T>(top);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[i]) - top);
  return static_cast<T>(top + std::log(sum));
}

template <class T>
constexpr T lowest() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::lowest();
}

template <class T>
constexpr T highest() {
  return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity()
                                     : std::numeric_limits<T>::max();
}

template <class T>
struct Row {
  const T* x;
  int64_t count;
};

template <class T>
T reduce_sum(Row<T> r) {
  return static_cast<T>(sum_of(r.x, r.count, [](auto v) { return v; }));
}
template <class T>
T reduce_mean(Row<T> r) {
  const auto sum = sum_of(r.x, r.count, [](auto v) { return v; });
  if constexpr (std::is_integral_v<T>) {
    if (r.count == 0) return 0;
    return static_cast<T>(sum / static_cast<T>(r.count));
  } else {
    return static_cast<T>(sum / static_cast<double>(r.count));
  }
}
template <class T>
T reduce_max(Row<T> r) {
  T out = lowest<T>();
  for (int64_t i = 0; i < r.count; ++i) out = r.x[i] > out || r.x[i] != r.x[i] ? r.x[i] : out;
  return out;
}
template <class T>
T reduce_min(Row<T> r) {
  T out = highest<T>();
  for (int64_t i = 0; i < r.count; ++i) out = r.x[i] < out || r.x[i] != r.x[i] ? r.x[i] : out;
  return out;
}
template <class T>
T reduce_prod(Row<T> r) {
  T out = 1;
  for (int64_t i = 0; i < r.count; ++i) {
    out = wrapping(out, r.x[i], [](auto a, auto b) { return a * b; });
  }
  return out;
}
template <class T>
T reduce_l1(Row<T> r) {
  return static_cast<T>(sum_of(r.x, r.count, [](auto v) { return v < 0 ? 0 - v : v; }));
}
template <class T>
T reduce_sum_square(Row<T> r) {
  return static_cast<T>(sum_of(
      r.x, r.count, [](auto v) { return wrapping(v, v, [](auto a, auto b) { return a * b; }); }));
}
template <class T>
T reduce_l2(Row<T> r) {
  const auto squares = sum_of(
      r.x, r.count, [](auto v) { return wrapping(v, v, [](auto a, auto b) { return a * b; }); });
  return static_cast<T>(std::sqrt(static_cast<double>(squares)));
}
template <class T>
T reduce_log_sum(Row<T> r) {
  const auto sum = sum_of(r.x, r.count, [](auto v) { return v; });
  return static_cast<T>(std::log(static_cast<double>(sum)));
}
template <class T>
T reduce_log_sum_exp(Row<T> r) {
  return log_sum_exp(r.x, r.count);
}

template <class T>
struct RowOp {
  std::string_view op;
  T (*fn)(Row<T>);
};

template <class T>
constexpr RowOp<T> kRowOps[] = {
    {"ReduceSum", reduce_sum<T>},        {"ReduceMean", reduce_mean<T>},
    {"ReduceMax", reduce_max<T>},        {"ReduceMin", reduce_min<T>},
    {"ReduceProd", reduce_prod<T>},      {"ReduceL1", reduce_l1<T>},
    {"ReduceL2", reduce_l2<T>},          {"ReduceSumSquare", reduce_sum_square<T>},
    {"ReduceLogSum", reduce_log_sum<T>}, {"ReduceLogSumExp", reduce_log_sum_exp<T>},
};

}  // namespace

Arrays eval_reduce(const OpCall& call) {
  const Array& x = call.in(0);
  const std::vector<int64_t> axes = call.has(1) ? integers_of(call, 1) : call.node.ints("axes");
  const bool none = axes.empty() && call.node.i("noop_with_empty_axes", 0) != 0;
  std::vector<bool> gone(x.shape().size(), axes.empty() && !none);
  for (const int64_t axis : axes)
    gone[static_cast<size_t>(normal_axis(call, axis, x.rank()))] = true;
  const bool keep = call.node.i("keepdims", 1) != 0;
  std::vector<int64_t> perm;
  Shape shape;
  int64_t count = 1;
  for (size_t d = 0; d < gone.size(); ++d) {
    if (!gone[d]) perm.push_back(static_cast<int64_t>(d));
    if (!gone[d] || keep) shape.push_back(gone[d] ? 1 : x.shape()[d]);
  }
  for (size_t d = 0; d < gone.size(); ++d) {
    if (!gone[d]) continue;
    perm.push_back(static_cast<int64_t>(d));
    count = wrapped_product(count, x.shape()[d]);
  }
  Array rows = widened(x);
  if (!std::is_sorted(perm.begin(), perm.end())) rows = transposed(rows, perm);
  Array out(rows.type(), shape);
  const bool known = visit_number(rows.type(), [&]<class T>(T) {
    const T* from = rows.as<T>().data();
    for (const RowOp<T>& op : kRowOps<T>) {
      if (op.op != call.node.op) continue;
      for (T& y : out.mutable_as<T>()) {
        y = op.fn({from, count});
        from += count;
      }
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
  return {narrowed(out, x.type())};
}

}  // namespace kvern::eval
