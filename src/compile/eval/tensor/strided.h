// Walks over dense arrays by strides: what broadcasting and all layout ops are made of.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

using Strides = std::vector<int64_t>;  // in elements; may be 0 or negative

// a * b modulo 2^64: an array without elements may have dims whose product does not exist.
inline int64_t wrapped_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Row-major strides of a dense array.
Strides dense_strides(const Shape& shape);

// Several operands over one shape. Neighbouring dims that every operand walks evenly are joined,
// dims of size 1 are gone; so an inner loop is as long as it can be.
class Walk {
 public:
  static constexpr size_t kMaxOperands = 4;

  Walk(const Shape& shape, std::vector<Strides> strides);

  int64_t inner_count() const { return dims_.back(); }
  int64_t inner_stride(size_t operand) const { return strides_[operand].back(); }

  // fn(offsets) once per inner row: where it begins in each operand, in elements.
  template <class Fn>
  void rows(Fn&& fn) const {
    if (empty_) return;
    std::array<int64_t, kMaxOperands> offsets{};
    std::vector<int64_t> index(dims_.size(), 0);
    const auto last = static_cast<int64_t>(dims_.size()) - 1;
    while (true) {
      fn(offsets);
      int64_t d = last - 1;
      for (; d >= 0; --d) {
        const auto at = static_cast<size_t>(d);
        for (size_t o = 0; o < strides_.size(); ++o) offsets[o] += strides_[o][at];
        if (++index[at] < dims_[at]) break;
        for (size_t o = 0; o < strides_.size(); ++o) offsets[o] -= strides_[o][at] * dims_[at];
        index[at] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  Shape dims_;                    // never empty
  std::vector<Strides> strides_;  // [operand][dim]
  bool empty_ = false;
};

// The shape that ONNX's (numpy's) broadcasting gives. Throws naming the node.
Shape broadcast_shape(const OpCall& call, std::span<const Shape* const> shapes);
Shape broadcast_shape(const OpCall& call, std::span<const Array* const> arrays);
// Strides of `from` as seen by an array of shape `to`, right-aligned: 0 where it repeats.
Strides broadcast_strides(const Shape& from, const Shape& to);

// to[i * to_strides] = from[i * from_strides] for all i of `shape`. Elements of `bytes` bytes of
// any type. Pointers are those of index 0.
void copy_strided(size_t bytes, const Shape& shape, const std::byte* from,
                  const Strides& from_strides, std::byte* to, const Strides& to_strides);

// A dense copy with dims in the order of `perm`.
Array transposed(const Array& array, std::span<const int64_t> perm);
// Axis `axis` moved to the end, and back again.
Array axis_to_end(const Array& array, int64_t axis);
Array axis_from_end(const Array& array, int64_t axis);

}  // namespace kvern::eval
