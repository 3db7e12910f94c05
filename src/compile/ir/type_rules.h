// What schemas ask of the types they are given. Each throws Error(kInvalidModel) that names the
// operand, what was wanted and what came; Graph::add puts the node's name in front.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "compile/ir/op.h"
#include "kvern/error.h"

namespace kvern::ir {

using Types = std::span<const Type>;

template <class... Args>
void want(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  throw Error(Code::kInvalidModel, fmt::format(text, std::forward<Args>(args)...));
}

// A tensor of this dtype and rank.
void want_tensor(const Type& type, std::string_view operand, DType dtype, size_t rank);
// The same, every dim constant.
void want_constant(const Type& type, std::string_view operand, size_t rank);
void want_same(const Type& a, std::string_view a_name, const Type& b, std::string_view b_name);
// A tensor f32[rows, width].
void want_rows(const Type& type, std::string_view operand, int64_t width);
void want_same_rows(const Type& a, std::string_view a_name, const Type& b, std::string_view b_name);
// The constant last dim of x.
int64_t last_dim(const Type& type, std::string_view operand);
// Rank 1 or 2, dims positive, at most 2^48 elements.
void want_weight_shape(const Shape& shape, std::string_view name);
void want_positive(int64_t value, std::string_view attribute);

// heads * dim, each from a model file: refuses what no model has instead of overflowing.
int64_t heads_width(int64_t heads, int64_t dim, std::string_view what);

template <class T>
Attrs defaults() {
  return Attrs::of(T{});
}

}  // namespace kvern::ir
