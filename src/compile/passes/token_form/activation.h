// Functions of one number as ops of token form, found by their values.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// Writes f(x): as the op that has its values (silu, gelu, softcap, …), else as a `map`.
ir::ValueId write_function(Walk& walk, const Expr& f, ir::ValueId x);

// f as a program of `map` over x0, x1, …; nothing where it has no words for it.
std::optional<std::string> map_text(const Expr& f, int num_inputs = 1);

enum class VectorOp : uint8_t { kAdd, kMul };
// x [tokens, n] and a vector [n].
ir::ValueId vector_map(Walk& walk, ir::ValueId x, VectorOp op, ir::ValueId vector);

}  // namespace kvern::passes::token_form
