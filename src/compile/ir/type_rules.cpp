#include "compile/ir/type_rules.h"

#include "base/checked.h"

namespace kvern::ir {

void want_tensor(const Type& type, std::string_view operand, DType dtype, size_t rank) {
  want(!type.is_kv() && type.dtype == dtype && type.dims.size() == rank,
       "{} must be {} of rank {}, got {}", operand, dtype_name(dtype), rank, to_string(type));
}

void want_constant(const Type& type, std::string_view operand, size_t rank) {
  want_tensor(type, operand, DType::kF32, rank);
  want(type.all_constant(), "{} must have constant dims, got {}", operand, to_string(type));
}

void want_same(const Type& a, std::string_view a_name, const Type& b, std::string_view b_name) {
  want(a == b, "{} and {} must have one type, got {} and {}", a_name, b_name, to_string(a),
       to_string(b));
}

void want_rows(const Type& type, std::string_view operand, int64_t width) {
  want_tensor(type, operand, DType::kF32, 2);
  want(type.dims[1] == Dim(width), "{} must be {} wide, got {}", operand, width, to_string(type));
}

void want_same_rows(const Type& a, std::string_view a_name, const Type& b,
                    std::string_view b_name) {
  want(!a.dims.empty() && !b.dims.empty() && a.dims[0] == b.dims[0],
       "{} and {} must have the same rows, got {} and {}", a_name, b_name, to_string(a),
       to_string(b));
}

int64_t last_dim(const Type& type, std::string_view operand) {
  want(!type.is_kv() && !type.dims.empty() && type.dims.back().is_constant(),
       "{} must be a tensor whose last dim is constant, got {}", operand, to_string(type));
  return type.dims.back().value();
}

void want_weight_shape(const Shape& shape, std::string_view name) {
  want(shape.size() == 1 || shape.size() == 2, "weight '{}' has shape {}; rank 1 or 2 wanted", name,
       to_string(shape));
  uint64_t elements = 1;
  for (const int64_t dim : shape) {
    want(dim > 0, "weight '{}' has shape {}; dims must be positive", name, to_string(shape));
    const auto product = checked_mul(elements, static_cast<uint64_t>(dim));
    want(product && *product <= (uint64_t{1} << 48), "weight '{}' of shape {} is too large", name,
         to_string(shape));
    elements = *product;
  }
}

void want_positive(int64_t value, std::string_view attribute) {
  want(value > 0, "{} must be positive, got {}", attribute, value);
}

int64_t heads_width(int64_t heads, int64_t dim, std::string_view what) {
  constexpr int64_t kLargest = 1 << 24;  // far above any model, far below an overflow
  want(heads > 0 && heads <= kLargest && dim > 0 && dim <= kLargest,
       "{}: {} heads of {} elements; both must be between 1 and {}", what, heads, dim, kLargest);
  return heads * dim;
}

}  // namespace kvern::ir
