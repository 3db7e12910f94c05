// Sums, means, largest elements and softmax over features, and norms that have no op of their own.
#pragma once

#include "compile/ir/ops.h"
#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// The distinct rows of each token, one after another in one base.
struct JoinedRows {
  RowSet rows;
  int32_t base = -1;
  int64_t dim = 0;  // of a row
  int64_t heads() const { return static_cast<int64_t>(rows.heads.size()); }
};
std::optional<JoinedRows> join_rows(Walk& walk, const View& view, const std::string& origin,
                                    std::string* why);
// `each` elements per row, in the order of the tensor, out of a base [tokens, heads * each].
std::vector<ir::Array> row_elements(const Walk& walk, const RowSet& rows,
                                    std::span<const Shape> shapes, int64_t each, int32_t base);

// Rows normed one by one: (x - mean) / sqrt(variance + eps).
int32_t layer_norm_rows(Walk& walk, const JoinedRows& x, double eps, const std::string& origin);

// A mean on its way to a norm, or what is left without it, where no norm comes of it.
std::shared_ptr<const View> view_of_stat(Walk& walk, const Stat& stat,
                                         std::span<const Shape> shapes, std::string* why);
std::shared_ptr<const View> view_of_centered(Walk& walk, const Centered& centered,
                                             std::span<const Shape> shapes, std::string* why);

}  // namespace kvern::passes::token_form
