// What gathering and scattering share: indices that were checked.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/eval/tensor/strided.h"

namespace kvern::eval {

// int32 or int64 as int64. Throws naming the node for other types.
std::vector<int64_t> read_indices(const OpCall& call, const Array& indices);
// -dim … dim-1 as 0 … dim-1; throws naming the node.
int64_t checked_index(const OpCall& call, int64_t index, int64_t dim);
int64_t product_of(const Shape& shape, size_t begin, size_t end);

// GatherElements and ScatterElements: where in `data` each index points.
struct ElementWalk {
  Walk walk;  // of data (axis standing still) and of the indices
  std::vector<int64_t> indices;
  int64_t axis_stride;

  // fn(element of data, position among the indices), in order.
  template <class Fn>
  void each(Fn&& fn) const {
    walk.rows([&](const auto& offsets) {
      for (int64_t i = 0; i < walk.inner_count(); ++i) {
        const int64_t position = offsets[1] + i * walk.inner_stride(1);
        const int64_t index = indices[static_cast<size_t>(position)];
        fn(offsets[0] + i * walk.inner_stride(0) + index * axis_stride, position);
      }
    });
  }
};
ElementWalk element_walk(const OpCall& call, const Array& data, const Array& at, size_t axis);

}  // namespace kvern::eval
