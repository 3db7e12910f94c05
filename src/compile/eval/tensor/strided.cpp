#include "compile/eval/tensor/strided.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "compile/eval/tensor/element.h"

namespace kvern::eval {

Strides dense_strides(const Shape& shape) {
  Strides out(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    out[d] = stride;
    stride = wrapped_product(stride, std::max<int64_t>(shape[d], 1));
  }
  return out;
}

Walk::Walk(const Shape& shape, std::vector<Strides> strides) : strides_(strides.size()) {
  KVERN_CHECK(strides.size() <= kMaxOperands, "{} operands", strides.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) empty_ = true;
    if (shape[d] == 1) continue;
    bool joins = !dims_.empty();
    for (size_t o = 0; o < strides.size() && joins; ++o) {
      joins = strides_[o].back() == wrapped_product(strides[o][d], shape[d]);
    }
    if (joins) {
      dims_.back() = wrapped_product(dims_.back(), shape[d]);
    } else {
      dims_.push_back(shape[d]);
    }
    for (size_t o = 0; o < strides.size(); ++o) {
      if (joins) {
        strides_[o].back() = strides[o][d];
      } else {
        strides_[o].push_back(strides[o][d]);
      }
    }
  }
  if (dims_.empty()) {
    dims_.push_back(1);
    for (Strides& s : strides_) s.push_back(0);
  }
}

Shape broadcast_shape(const OpCall& call, std::span<const Shape* const> shapes) {
  Shape out;
  for (const Shape* shape : shapes) {
    if (shape->size() > out.size()) out.insert(out.begin(), shape->size() - out.size(), 1);
    const size_t skipped = out.size() - shape->size();
    for (size_t d = 0; d < shape->size(); ++d) {
      int64_t& dim = out[skipped + d];
      if ((*shape)[d] == dim || (*shape)[d] == 1) continue;
      if (dim != 1) {
        std::string names;
        for (const Shape* each : shapes) {
          names += fmt::format("{}{}", names.empty() ? "" : " and ", to_string(*each));
        }
        call.fail(fmt::format("shapes {} do not broadcast", names));
      }
      dim = (*shape)[d];
    }
  }
  return out;
}

Shape broadcast_shape(const OpCall& call, std::span<const Array* const> arrays) {
  std::vector<const Shape*> shapes;
  for (const Array* array : arrays) shapes.push_back(&array->shape());
  return broadcast_shape(call, shapes);
}

Strides broadcast_strides(const Shape& from, const Shape& to) {
  const Strides dense = dense_strides(from);
  Strides out(to.size(), 0);
  const size_t skipped = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1) out[skipped + d] = dense[d];
  }
  return out;
}

namespace {

// Square tiles keep both sides of a transposition in cache.
template <class T>
void copy_tiles(const T* from, int64_t from_row, int64_t from_column, T* to, int64_t to_row,
                int64_t to_column, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        const T* source = from + r * from_row;
        T* target = to + r * to_row;
        for (int64_t c = c0; c < c1; ++c) target[c * to_column] = source[c * from_column];
      }
    }
  }
}

template <class T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (from_stride == 0 && to_stride == 1) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

// The dim with stride 1 in `from` when that is not the last one: 2-D transposition with whatever is
// around it.
int64_t transposed_dim(const Shape& shape, const Strides& from, const Strides& to) {
  if (shape.size() < 2 || from.back() == 1 || from.back() == 0 || to.back() != 1) return -1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    if (from[d] == 1 && shape[d] >= 8) return static_cast<int64_t>(d);
  }
  return -1;
}

}  // namespace

void copy_strided(size_t bytes, const Shape& shape, const std::byte* from,
                  const Strides& from_strides, std::byte* to, const Strides& to_strides) {
  const bool known = visit_size(bytes, [&]<class T>(T) {
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    const int64_t tiled = transposed_dim(shape, from_strides, to_strides);
    if (tiled >= 0) {
      const auto at = static_cast<size_t>(tiled);
      Shape rest = shape;
      rest[at] = std::min<int64_t>(rest[at], 1);
      rest.back() = std::min<int64_t>(rest.back(), 1);
      const Walk walk(rest, {from_strides, to_strides});
      walk.rows([&](const auto& offsets) {
        for (int64_t i = 0; i < walk.inner_count(); ++i) {
          copy_tiles(source + offsets[0] + i * walk.inner_stride(0), 1, from_strides.back(),
                     target + offsets[1] + i * walk.inner_stride(1), to_strides[at], 1, shape[at],
                     shape.back());
        }
      });
      return;
    }
    const Walk walk(shape, {from_strides, to_strides});
    walk.rows([&](const auto& offsets) {
      copy_row(source + offsets[0], walk.inner_stride(0), target + offsets[1], walk.inner_stride(1),
               walk.inner_count());
    });
  });
  KVERN_CHECK(known, "elements of {} bytes", bytes);
}

Array transposed(const Array& array, std::span<const int64_t> perm) {
  const Strides dense = dense_strides(array.shape());
  Shape shape;
  Strides strides;
  for (const int64_t from : perm) {
    shape.push_back(array.shape()[static_cast<size_t>(from)]);
    strides.push_back(dense[static_cast<size_t>(from)]);
  }
  Array out(array.type(), shape);
  if (out.count() == 0) return out;
  copy_strided(ir::element_bytes(array.type()), shape, array.bytes().data(), strides,
               out.mutable_bytes().data(), dense_strides(shape));
  return out;
}

Array axis_to_end(const Array& array, int64_t axis) {
  if (axis + 1 == array.rank()) return array;
  std::vector<int64_t> perm(static_cast<size_t>(array.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + axis, perm.begin() + axis + 1, perm.end());
  return transposed(array, perm);
}

Array axis_from_end(const Array& array, int64_t axis) {
  if (axis + 1 == array.rank()) return array;
  std::vector<int64_t> perm(static_cast<size_t>(array.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + axis, perm.end() - 1, perm.end());
  return transposed(array, perm);
}

}  // namespace kvern::eval
