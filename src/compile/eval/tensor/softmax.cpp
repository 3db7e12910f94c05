// Softmax, LogSoftmax and Hardmax.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

template <class T>
void softmax_row(const T* x, T* y, int64_t count, bool logarithm) {
  const T top = *std::max_element(x, x + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    y[i] = std::exp(x[i] - top);
    sum += static_cast<double>(y[i]);
  }
  if (logarithm) {
    const T shift = top + static_cast<T>(std::log(sum));
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] - shift;
  } else {
    const T scale = static_cast<T>(1.0 / sum);
    for (int64_t i = 0; i < count; ++i) y[i] *= scale;
  }
}

template <class T>
void run_rows(const std::string& op, const Array& x, Array* out, int64_t columns) {
  const T* from = x.as<T>().data();
  T* to = out->mutable_as<T>().data();
  for (int64_t at = 0; at < x.count(); at += columns) {
    if (op == "Hardmax") {
      std::fill_n(to + at, columns, T{0});
      to[at + (std::max_element(from + at, from + at + columns) - (from + at))] = T{1};
    } else {
      softmax_row(from + at, to + at, columns, op == "LogSoftmax");
    }
  }
}

}  // namespace

Arrays eval_softmax(const OpCall& call) {
  const Array& x = call.in(0);
  if (!ir::is_float(x.type())) {
    call.fail(fmt::format("floats are wanted, got {}", ir::element_type_name(x.type())));
  }
  if (x.count() == 0) return {x};
  // Until opset 12 everything from `axis` on is one row.
  const bool flattens = call.node.opset < 13;
  int64_t axis = call.node.i("axis", flattens ? 1 : -1);
  if (!(flattens && axis == x.rank()))
    axis = normal_axis(call, axis, std::max<int64_t>(x.rank(), 1));
  Array wide = widened(x);
  int64_t columns = 1;
  if (flattens) {
    for (size_t d = static_cast<size_t>(axis); d < x.shape().size(); ++d) columns *= x.shape()[d];
  } else if (x.rank() > 0) {
    columns = x.shape()[static_cast<size_t>(axis)];
    wide = axis_to_end(wide, axis);
  }
  Array out(wide.type(), wide.shape());
  if (wide.type() == ElementType::kDouble) {
    run_rows<double>(call.node.op, wide, &out, columns);
  } else {
    run_rows<float>(call.node.op, wide, &out, columns);
  }
  if (!flattens && x.rank() > 0) out = axis_from_end(out, axis);
  return {narrowed(out, x.type())};
}

}  // namespace kvern::eval
