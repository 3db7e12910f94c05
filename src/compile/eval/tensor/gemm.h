// Products of f32 matrices with any strides, blocked for caches and registers.
#pragma once

#include <cstdint>

namespace kvern::eval {

struct MatrixView {
  const float* data;
  int64_t row_stride;  // in elements
  int64_t column_stride;
};

struct Product {
  MatrixView a;  // [m, k]
  MatrixView b;  // [k, n]
  float* c;      // [m, n], dense; written, not added to
  int64_t m, n, k;
};

// All products, on several threads. Each is summed in ascending stretches of k whatever the number
// of threads: the same numbers every time.
void multiply(const Product* products, int64_t count);

}  // namespace kvern::eval
