// Gather and its relatives. Indices are hostile: each is checked before it is used.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/indices.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {

std::vector<int64_t> read_indices(const OpCall& call, const Array& indices) {
  if (indices.type() != ElementType::kInt64 && indices.type() != ElementType::kInt32) {
    call.fail(fmt::format("indices must be int32 or int64, got {}",
                          ir::element_type_name(indices.type())));
  }
  return indices.to_i64(int64_t{1} << 32);
}

int64_t checked_index(const OpCall& call, int64_t index, int64_t dim) {
  if (index < -dim || index >= dim) {
    call.fail(fmt::format("index {} is outside of a dim of {}", index, dim));
  }
  return index < 0 ? index + dim : index;
}

int64_t product_of(const Shape& shape, size_t begin, size_t end) {
  int64_t out = 1;
  for (size_t d = begin; d < end; ++d) out = wrapped_product(out, shape[d]);
  return out;
}

Arrays eval_gather(const OpCall& call) {
  const Array& x = call.in(0);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 0), x.rank()));
  const Shape& from = x.shape();
  std::vector<int64_t> indices = read_indices(call, call.in(1));
  for (int64_t& index : indices) index = checked_index(call, index, from[axis]);
  Shape shape(from.begin(), from.begin() + static_cast<int64_t>(axis));
  shape.insert(shape.end(), call.in(1).shape().begin(), call.in(1).shape().end());
  shape.insert(shape.end(), from.begin() + static_cast<int64_t>(axis) + 1, from.end());
  Array out(x.type(), shape);
  if (out.count() == 0) return {out};
  const int64_t outer = product_of(from, 0, axis);
  const size_t block =
      static_cast<size_t>(product_of(from, axis + 1, from.size())) * ir::element_bytes(x.type());
  const std::byte* base = x.bytes().data();
  std::byte* to = out.mutable_bytes().data();
  for (int64_t o = 0; o < outer; ++o, base += static_cast<size_t>(from[axis]) * block) {
    for (const int64_t index : indices) {
      std::memcpy(to, base + static_cast<size_t>(index) * block, block);
      to += block;
    }
  }
  return {out};
}

Arrays eval_gather_elements(const OpCall& call) {
  const Array& x = call.in(0);
  const Array& at = call.in(1);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 0), x.rank()));
  const ElementWalk walk = element_walk(call, x, at, axis);
  Array out(x.type(), at.shape());
  visit_size(ir::element_bytes(x.type()), [&]<class T>(T) {
    const T* from = x.as<T>().data();
    T* to = out.mutable_as<T>().data();
    walk.each([&](int64_t element, int64_t position) { to[position] = from[element]; });
  });
  return {out};
}

Arrays eval_gather_nd(const OpCall& call) {
  const Array& x = call.in(0);
  const Array& at = call.in(1);
  const int64_t batch_dims = call.node.i("batch_dims", 0);
  if (at.rank() < 1 || batch_dims < 0 || batch_dims >= std::min(x.rank(), at.rank())) {
    call.fail(fmt::format("batch_dims {} with data {} and indices {}", batch_dims,
                          to_string(x.shape()), to_string(at.shape())));
  }
  const auto b = static_cast<size_t>(batch_dims);
  const int64_t depth = at.shape().back();
  if (depth < 0 || depth > x.rank() - batch_dims) {
    call.fail(fmt::format("indices of {} dims into {}", depth, to_string(x.shape())));
  }
  if (!std::equal(at.shape().begin(), at.shape().begin() + batch_dims, x.shape().begin())) {
    call.fail("data and indices have different batches");
  }
  const std::vector<int64_t> indices = read_indices(call, at);
  const size_t rest = b + static_cast<size_t>(depth);
  Shape shape(at.shape().begin(), at.shape().end() - 1);
  shape.insert(shape.end(), x.shape().begin() + static_cast<int64_t>(rest), x.shape().end());
  Array out(x.type(), shape);
  if (out.count() == 0) return {out};
  const int64_t batches = product_of(at.shape(), 0, b);
  const int64_t per_batch = product_of(at.shape(), b, at.shape().size() - 1);
  const int64_t batch_elements = product_of(x.shape(), b, x.shape().size());
  const Strides strides = dense_strides(x.shape());
  const size_t bytes = ir::element_bytes(x.type());
  const size_t block = static_cast<size_t>(product_of(x.shape(), rest, x.shape().size())) * bytes;
  std::byte* to = out.mutable_bytes().data();
  const int64_t* next = indices.data();
  for (int64_t row = 0; row < batches * per_batch; ++row, to += block) {
    int64_t element = row / per_batch * batch_elements;
    for (size_t d = b; d < rest; ++d) {
      element += checked_index(call, *next++, x.shape()[d]) * strides[d];
    }
    std::memcpy(to, x.bytes().data() + static_cast<size_t>(element) * bytes, block);
  }
  return {out};
}

Arrays eval_compress(const OpCall& call) {
  Array x = call.in(0);
  if (!call.node.has("axis")) x = x.reshaped({x.count()});
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 0), x.rank()));
  const std::vector<int64_t> keep = integers_of(call, 1);
  std::vector<int64_t> indices;
  for (size_t i = 0; i < keep.size() && static_cast<int64_t>(i) < x.shape()[axis]; ++i) {
    if (keep[i] != 0) indices.push_back(static_cast<int64_t>(i));
  }
  const Array at = Array::vector_i64(std::move(indices));
  TensorNode gather = call.node;
  gather.attrs["axis"] = static_cast<int64_t>(axis);
  const Array* inputs[] = {&x, &at};
  return eval_gather({gather, inputs, {}});
}

}  // namespace kvern::eval
