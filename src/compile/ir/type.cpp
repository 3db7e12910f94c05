#include "compile/ir/type.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace kvern::ir {

bool Type::all_constant() const {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
}

Shape Type::constant_shape() const {
  KVERN_CHECK(!is_kv() && all_constant(), "type {} has no constant shape", to_string(*this));
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.value());
  return shape;
}

std::string to_string(const Type& type) {
  if (type.is_kv()) return "!kv";
  std::vector<std::string> dims;
  for (const Dim& dim : type.dims) {
    dims.push_back(dim.is_constant() ? fmt::format("{}", dim.value()) : dim.symbol());
  }
  return fmt::format("{}[{}]", dtype_name(type.dtype), fmt::join(dims, ", "));
}

}  // namespace kvern::ir
