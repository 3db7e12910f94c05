// Loops of elementwise ops over broadcast operands. Innermost loops know whether an operand runs
// along or repeats, so that compilers vectorise them.
#pragma once

#include "compile/eval/tensor/strided.h"

namespace kvern::eval {

// y[i] = op(a[i], b[i]) over the broadcast of both. A and B hold TA and TB, y is of `type` and
// holds R.
template <class TA, class TB, class R, class Op>
Array combine(const OpCall& call, const Array& a, const Array& b, ElementType type, Op op) {
  const Array* both[] = {&a, &b};
  Array out(type, broadcast_shape(call, both));
  const Walk walk(out.shape(),
                  {broadcast_strides(a.shape(), out.shape()),
                   broadcast_strides(b.shape(), out.shape()), dense_strides(out.shape())});
  const TA* pa = a.as<TA>().data();
  const TB* pb = b.as<TB>().data();
  R* py = out.mutable_as<R>().data();
  const int64_t count = walk.inner_count();
  const int64_t sa = walk.inner_stride(0), sb = walk.inner_stride(1);
  walk.rows([&](const auto& offsets) {
    const TA* x = pa + offsets[0];
    const TB* z = pb + offsets[1];
    R* y = py + offsets[2];
    if (sa == 1 && sb == 1) {
      for (int64_t i = 0; i < count; ++i) y[i] = op(x[i], z[i]);
    } else if (sb == 0 && sa == 1) {
      const TB right = *z;
      for (int64_t i = 0; i < count; ++i) y[i] = op(x[i], right);
    } else if (sa == 0 && sb == 1) {
      const TA left = *x;
      for (int64_t i = 0; i < count; ++i) y[i] = op(left, z[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) y[i] = op(x[i * sa], z[i * sb]);
    }
  });
  return out;
}

// y[i] = op(x[i]).
template <class T, class R, class Op>
Array map_elements(const Array& x, ElementType type, Op op) {
  Array out(type, x.shape());
  const T* from = x.as<T>().data();
  R* to = out.mutable_as<R>().data();
  const int64_t count = x.count();
  for (int64_t i = 0; i < count; ++i) to[i] = op(from[i]);
  return out;
}

}  // namespace kvern::eval
