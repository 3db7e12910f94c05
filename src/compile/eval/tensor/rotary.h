// Rotation of heads by tables, shared by the rotary ops and by GroupQueryAttention.
#pragma once

#include <vector>

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

struct RotaryTables {
  Array cos;  // [.., half] in f32; all dims but the last are rows
  Array sin;
  std::vector<int64_t> rows;  // of [batch, tokens]
  bool interleaved = false;   // pairs are neighbours, not halves
};

// Inputs `cos` and `sin` of the node, without rows.
RotaryTables rotary_tables(const OpCall& call, size_t cos, size_t sin);
// x [batch, heads, tokens, dim] with its first 2 * half dims rotated, in x's type. A wanted_dim
// that is not 0 must be 2 * half. Throws naming the node, also for rows beyond the tables.
Array rotate_heads(const OpCall& call, const Array& x, const RotaryTables& tables,
                   int64_t wanted_dim);

}  // namespace kvern::eval
