#include "tensor/shape.h"

#include <fmt/format.h>

namespace kvern {

int64_t num_elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace kvern
