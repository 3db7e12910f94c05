// MatMul and Gemm.
#include <fmt/format.h>

#include <algorithm>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/gemm.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

// c = a b for any number type; floats in f64 sums.
template <class T>
void multiply_plain(const T* a, const Strides& a_strides, const T* b, const Strides& b_strides,
                    T* c, int64_t m, int64_t n, int64_t k) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      Sum sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += static_cast<Sum>(a[i * a_strides[0] + l * a_strides[1]]) *
               static_cast<Sum>(b[l * b_strides[0] + j * b_strides[1]]);
      }
      c[i * n + j] = static_cast<T>(sum);
    }
  }
}

struct Sizes {
  int64_t m, n, k;
};

// One product per (offset of a, offset of b); c follows densely.
void multiply_all(const OpCall& call, const Array& a, const Strides& sa, const Array& b,
                  const Strides& sb, const std::vector<std::pair<int64_t, int64_t>>& offsets,
                  Sizes s, Array* out) {
  if (a.type() == ElementType::kFloat) {
    std::vector<Product> products;
    products.reserve(offsets.size());
    float* c = out->mutable_as<float>().data();
    for (const auto& [at_a, at_b] : offsets) {
      products.push_back({{a.as<float>().data() + at_a, sa[0], sa[1]},
                          {b.as<float>().data() + at_b, sb[0], sb[1]},
                          c,
                          s.m,
                          s.n,
                          s.k});
      c += s.m * s.n;
    }
    multiply(products.data(), static_cast<int64_t>(products.size()));
    return;
  }
  const bool known = visit_number(a.type(), [&]<class T>(T) {
    T* c = out->mutable_as<T>().data();
    for (const auto& [at_a, at_b] : offsets) {
      multiply_plain(a.as<T>().data() + at_a, sa, b.as<T>().data() + at_b, sb, c, s.m, s.n, s.k);
      c += s.m * s.n;
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(a.type())));
}

[[noreturn]] void refuse_shapes(const OpCall& call) {
  call.fail(fmt::format("shapes {} and {} do not multiply", to_string(call.in(0).shape()),
                        to_string(call.in(1).shape())));
}

}  // namespace

Arrays eval_matmul(const OpCall& call) {
  Array a = widened(call.in(0)), b = widened(call.in(1));
  const ElementType type = call.in(0).type();
  if (call.in(1).type() != type) call.fail("both matrices must be of one type");
  if (a.rank() == 0 || b.rank() == 0) refuse_shapes(call);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a = a.reshaped({1, a.count()});
  if (column) b = b.reshaped({b.count(), 1});
  Sizes s{a.shape()[a.shape().size() - 2], b.shape().back(), a.shape().back()};
  if (b.shape()[b.shape().size() - 2] != s.k) refuse_shapes(call);
  const Shape batches_a(a.shape().begin(), a.shape().end() - 2);
  const Shape batches_b(b.shape().begin(), b.shape().end() - 2);
  const Shape* both[] = {&batches_a, &batches_b};
  const Shape batches = broadcast_shape(call, both);
  Shape shape = batches;
  if (!row) shape.push_back(s.m);
  if (!column) shape.push_back(s.n);
  Array out(a.type(), shape);
  if (out.count() == 0) return {narrowed(out, type)};
  std::vector<std::pair<int64_t, int64_t>> offsets;
  if (num_elements(batches_b) == 1 && batches_a == batches) {
    // One tall matrix: weights are read once.
    s.m *= num_elements(batches_a);
    offsets.emplace_back(0, 0);
  } else {
    Strides ba = broadcast_strides(batches_a, batches);
    Strides bb = broadcast_strides(batches_b, batches);
    for (int64_t& stride : ba) stride *= s.m * s.k;
    for (int64_t& stride : bb) stride *= s.k * s.n;
    const Walk walk(batches, {ba, bb});
    walk.rows([&](const auto& o) {
      for (int64_t i = 0; i < walk.inner_count(); ++i) {
        offsets.emplace_back(o[0] + i * walk.inner_stride(0), o[1] + i * walk.inner_stride(1));
      }
    });
  }
  multiply_all(call, a, {s.k, 1}, b, {s.n, 1}, offsets, s, &out);
  return {narrowed(out, type)};
}

Arrays eval_gemm(const OpCall& call) {
  const Array a = widened(call.in(0)), b = widened(call.in(1));
  const ElementType type = call.in(0).type();
  if (a.rank() != 2 || b.rank() != 2 || call.in(1).type() != type) refuse_shapes(call);
  Shape shape_a = a.shape(), shape_b = b.shape();
  Strides sa = {shape_a[1], 1}, sb = {shape_b[1], 1};
  if (call.node.i("transA", 0) != 0) std::swap(shape_a[0], shape_a[1]), std::swap(sa[0], sa[1]);
  if (call.node.i("transB", 0) != 0) std::swap(shape_b[0], shape_b[1]), std::swap(sb[0], sb[1]);
  if (shape_a[1] != shape_b[0]) refuse_shapes(call);
  Array out(a.type(), {shape_a[0], shape_b[1]});
  if (out.count() > 0) {
    multiply_all(call, a, sa, b, sb, {{0, 0}}, {shape_a[0], shape_b[1], shape_a[1]}, &out);
  }
  const double alpha = call.node.f("alpha", 1), beta = call.node.f("beta", 1);
  const Shape wanted = out.shape();
  visit_number(out.type(), [&]<class T>(T) {
    if (alpha != 1) {
      out = map_elements<T, T>(out, out.type(),
                               [&](T x) { return static_cast<T>(static_cast<T>(alpha) * x); });
    }
    if (!call.has(2) || beta == 0) return;
    const Array c = widened(call.in(2));
    if (call.in(2).type() != type) call.fail("C must be of the type of A");
    out = combine<T, T, T>(call, out, c, out.type(), [&](T x, T y) {
      return static_cast<T>(x + static_cast<T>(static_cast<T>(beta) * y));
    });
  });
  if (out.shape() != wanted) call.fail("C does not broadcast to the product");
  return {narrowed(out, type)};
}

}  // namespace kvern::eval
