// Min, Max, Sum, Mean, Clip, Where and PRelu.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/eval_ops.h"

namespace kvern::eval {
namespace {

// NaN wins, as numpy has it.
template <class T>
T larger(T x, T y) {
  return x != x || x > y ? x : y;
}

template <class T>
T smaller(T x, T y) {
  return x != x || x < y ? x : y;
}

[[noreturn]] void refuse_type(const OpCall& call, const Array& x) {
  call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
}

}  // namespace

Arrays eval_variadic(const OpCall& call) {
  const ElementType type = call.in(0).type();
  const std::string& op = call.node.op;
  Array sum = widened(call.in(0));
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (call.in(i).type() != type) call.fail("inputs are of several types");
    const Array next = widened(call.in(i));
    const bool known = visit_number(sum.type(), [&]<class T>(T) {
      const auto run = [&](auto fn) { sum = combine<T, T, T>(call, sum, next, sum.type(), fn); };
      if (op == "Max") {
        run(larger<T>);
      } else if (op == "Min") {
        run(smaller<T>);
      } else {
        run([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p + q; }); });
      }
    });
    if (!known) refuse_type(call, call.in(i));
  }
  if (op == "Mean") {
    const auto count = static_cast<double>(call.inputs.size());
    visit_number(sum.type(), [&]<class T>(T) {
      sum = map_elements<T, T>(sum, sum.type(),
                               [count](T x) { return static_cast<T>(x / static_cast<T>(count)); });
    });
  }
  return {narrowed(sum, type)};
}

Arrays eval_clip(const OpCall& call) {
  const Array& x = call.in(0);
  const Array wide = widened(x);
  Array out;
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    const auto bound = [&](size_t index, const char* attr, T otherwise) {
      if (call.has(index)) {
        const Array value = widened(*call.inputs[index]);
        if (value.type() != wide.type() || value.count() != 1) {
          call.fail(fmt::format("input {} must be a scalar of {}", index,
                                ir::element_type_name(x.type())));
        }
        return value.as<T>()[0];
      }
      if constexpr (std::is_floating_point_v<T>) {
        if (call.node.has(attr)) return static_cast<T>(call.node.f(attr, 0));
      }
      return otherwise;
    };
    const T low = bound(1, "min", std::numeric_limits<T>::lowest());
    const T high = bound(2, "max", std::numeric_limits<T>::max());
    const bool open_below = !call.has(1) && !call.node.has("min");
    const bool open_above = !call.has(2) && !call.node.has("max");
    out = map_elements<T, T>(wide, wide.type(), [=](T v) {
      const T raised = !open_below && v < low ? low : v;
      return !open_above && raised > high ? high : raised;
    });
  });
  if (!known) refuse_type(call, x);
  return {narrowed(out, x.type())};
}

Arrays eval_where(const OpCall& call) {
  const Array& condition = call.in(0);
  const Array& yes = call.in(1);
  const Array& no = call.in(2);
  if (condition.type() != ElementType::kBool) call.fail("the condition must be bool");
  if (yes.type() != no.type()) call.fail("both choices must be of one type");
  Array out(yes.type(), broadcast_shape(call, call.inputs.first(3)));
  const Shape& shape = out.shape();
  const Walk walk(
      shape, {broadcast_strides(condition.shape(), shape), broadcast_strides(yes.shape(), shape),
              broadcast_strides(no.shape(), shape), dense_strides(shape)});
  const uint8_t* pick = condition.as<uint8_t>().data();
  visit_size(ir::element_bytes(yes.type()), [&]<class T>(T) {
    const T* a = yes.as<T>().data();
    const T* b = no.as<T>().data();
    T* y = out.mutable_as<T>().data();
    const int64_t sc = walk.inner_stride(0), sa = walk.inner_stride(1), sb = walk.inner_stride(2);
    walk.rows([&](const auto& o) {
      for (int64_t i = 0; i < walk.inner_count(); ++i) {
        y[o[3] + i] = pick[o[0] + i * sc] != 0 ? a[o[1] + i * sa] : b[o[2] + i * sb];
      }
    });
  });
  return {out};
}

Arrays eval_prelu(const OpCall& call) {
  const Array x = widened(call.in(0));
  const Array slope = widened(call.in(1));
  if (x.type() != slope.type()) call.fail("x and slope must be of one type");
  Array out;
  const bool known = visit_number(x.type(), [&]<class T>(T) {
    out = combine<T, T, T>(call, x, slope, x.type(),
                           [](T v, T s) { return v < 0 ? static_cast<T>(v * s) : v; });
  });
  if (!known) refuse_type(call, x);
  return {narrowed(out, call.in(0).type())};
}

}  // namespace kvern::eval
