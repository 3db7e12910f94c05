// ScatterND, ScatterElements and TensorScatter. Indices are hostile: each is checked before it is
// used.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/indices.h"

namespace kvern::eval {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMin, kMax };

Reduction reduction_of(const OpCall& call) {
  const std::string name = call.node.s("reduction", "none");
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "min") return Reduction::kMin;
  if (name == "max") return Reduction::kMax;
  call.fail(fmt::format("reduction '{}' is not defined", name));
}

template <class T>
T reduced(Reduction how, T old, T update) {
  switch (how) {
    case Reduction::kAdd:
      return wrapping(old, update, [](auto a, auto b) { return a + b; });
    case Reduction::kMul:
      return wrapping(old, update, [](auto a, auto b) { return a * b; });
    case Reduction::kMin:
      return std::min(old, update);
    case Reduction::kMax:
      return std::max(old, update);
    case Reduction::kNone:
      break;
  }
  return update;
}

// `write(fn)` calls fn(element of data, element of updates, how many) in order.
template <class Write>
Array scatter(const OpCall& call, const Array& data, const Array& updates, Write write) {
  if (updates.type() != data.type()) call.fail("data and updates are of several types");
  const Reduction how = reduction_of(call);
  if (how == Reduction::kNone) {
    Array out = data;
    const size_t bytes = ir::element_bytes(data.type());
    const std::byte* from = updates.bytes().data();
    std::byte* to = out.mutable_bytes().data();
    write([&](int64_t element, int64_t update, int64_t count) {
      std::memcpy(to + static_cast<size_t>(element) * bytes,
                  from + static_cast<size_t>(update) * bytes, static_cast<size_t>(count) * bytes);
    });
    return out;
  }
  Array out = widened(data);
  const Array wide = widened(updates);
  const bool known = visit_number(out.type(), [&]<class T>(T) {
    const T* from = wide.as<T>().data();
    T* to = out.mutable_as<T>().data();
    write([&](int64_t element, int64_t update, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        to[element + i] = reduced(how, to[element + i], from[update + i]);
      }
    });
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(data.type())));
  return narrowed(out, data.type());
}

}  // namespace

ElementWalk element_walk(const OpCall& call, const Array& data, const Array& at, size_t axis) {
  bool fits = data.rank() == at.rank();
  for (size_t d = 0; d < at.shape().size() && fits; ++d) {
    fits = d == axis || at.shape()[d] <= data.shape()[d];
  }
  if (!fits) {
    call.fail(
        fmt::format("indices {} do not lie in {}", to_string(at.shape()), to_string(data.shape())));
  }
  std::vector<int64_t> indices = read_indices(call, at);
  for (int64_t& index : indices) index = checked_index(call, index, data.shape()[axis]);
  Strides strides = dense_strides(data.shape());
  const int64_t axis_stride = strides[axis];
  strides[axis] = 0;
  return {Walk(at.shape(), {strides, dense_strides(at.shape())}), std::move(indices), axis_stride};
}

Arrays eval_scatter_elements(const OpCall& call) {
  const Array& data = call.in(0);
  const Array& at = call.in(1);
  const Array& updates = call.in(2);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 0), data.rank()));
  if (updates.shape() != at.shape()) call.fail("indices and updates are of several shapes");
  const ElementWalk walk = element_walk(call, data, at, axis);
  return {scatter(call, data, updates, [&](auto&& put) {
    walk.each([&](int64_t element, int64_t position) { put(element, position, 1); });
  })};
}

Arrays eval_scatter_nd(const OpCall& call) {
  const Array& data = call.in(0);
  const Array& at = call.in(1);
  const Array& updates = call.in(2);
  const int64_t depth = at.rank() < 1 ? -1 : at.shape().back();
  if (depth < 0 || depth > data.rank()) {
    call.fail(fmt::format("indices {} do not point into {}", to_string(at.shape()),
                          to_string(data.shape())));
  }
  Shape wanted(at.shape().begin(), at.shape().end() - 1);
  wanted.insert(wanted.end(), data.shape().begin() + depth, data.shape().end());
  if (updates.shape() != wanted) {
    call.fail(
        fmt::format("updates are {}; {} is wanted", to_string(updates.shape()), to_string(wanted)));
  }
  const std::vector<int64_t> indices = read_indices(call, at);
  const Strides strides = dense_strides(data.shape());
  const int64_t block = product_of(data.shape(), static_cast<size_t>(depth), data.shape().size());
  const int64_t rows = product_of(at.shape(), 0, at.shape().size() - 1);
  return {scatter(call, data, updates, [&](auto&& put) {
    const int64_t* next = indices.data();
    for (int64_t row = 0; row < rows; ++row) {
      int64_t element = 0;
      for (size_t d = 0; d < static_cast<size_t>(depth); ++d) {
        element += checked_index(call, *next++, data.shape()[d]) * strides[d];
      }
      if (block > 0) put(element, row * block, block);
    }
  })};
}

Arrays eval_tensor_scatter(const OpCall& call) {
  Array cache = call.in(0);
  const Array& update = call.in(1);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", -2), cache.rank()));
  const std::string mode = call.node.s("mode", "linear");
  if (axis == 0) call.fail("axis 0 is the batch");
  if (mode != "linear" && mode != "circular") call.fail(fmt::format("mode '{}'", mode));
  bool fits = update.type() == cache.type() && update.rank() == cache.rank();
  for (size_t d = 0; d < cache.shape().size() && fits; ++d) {
    fits = d == axis || update.shape()[d] == cache.shape()[d];
  }
  if (!fits) {
    call.fail(fmt::format("an update {} does not go into a cache {}", to_string(update.shape()),
                          to_string(cache.shape())));
  }
  const int64_t batch = cache.shape()[0];
  const int64_t capacity = cache.shape()[axis], length = update.shape()[axis];
  const std::vector<int64_t> begin =
      integers_of(call, 2, std::vector<int64_t>(static_cast<size_t>(batch), 0));
  if (static_cast<int64_t>(begin.size()) != batch) call.fail("write_indices must be [batch]");
  const bool circular = mode == "circular";
  for (const int64_t at : begin) {
    if (at < 0 || length > capacity || at > (circular ? capacity : capacity - length)) {
      call.fail(fmt::format("{} new entries at {} do not fit into {}", length, at, capacity));
    }
  }
  if (update.count() == 0) return {cache};
  const int64_t rows = product_of(cache.shape(), 1, axis);  // per batch
  const size_t block =
      static_cast<size_t>(product_of(cache.shape(), axis + 1, cache.shape().size())) *
      ir::element_bytes(cache.type());
  const std::byte* from = update.bytes().data();
  std::byte* to = cache.mutable_bytes().data();
  for (int64_t row = 0; row < batch * rows; ++row) {
    for (int64_t s = 0; s < length; ++s, from += block) {
      int64_t at = begin[static_cast<size_t>(row / rows)] + s;
      if (at >= capacity) at -= capacity;
      std::memcpy(to + static_cast<size_t>(row * capacity + at) * block, from, block);
    }
  }
  return {cache};
}

}  // namespace kvern::eval
