// What one element of a tensor is made of, in a world of concrete sizes. Layout ops run on arrays
// of symbols as they run on numbers: so what an export does with its tensors is executed, not
// matched against patterns.
#pragma once

#include <cstdint>
#include <span>

#include "compile/ir/array.h"

namespace kvern::passes::token_form {

// factor[0] * base[0][index[0]] + factor[1] * base[1][index[1]]. A base is an index into
// Emitter::bases; kConstant stands for the number 1, kNothing ends the sum.
inline constexpr int32_t kNothing = -1;
inline constexpr int32_t kConstant = -2;

struct Symbol {
  int32_t base[2] = {kNothing, kNothing};
  int32_t index[2] = {0, 0};  // of a token base: token * width + feature
  float factor[2] = {0, 0};
};
static_assert(sizeof(Symbol) == 24);

// Element `index` of a base.
inline Symbol element_of(int32_t base, int64_t index) {
  return {{base, kNothing}, {static_cast<int32_t>(index), 0}, {1, 0}};
}

// The element times a number.
inline void scale(Symbol& s, float by) {
  s.factor[0] *= by;
  s.factor[1] *= by;
}

inline std::span<const Symbol> symbols(const ir::Array& array) {
  return array.as<Symbol>();
}
// [shape] of base[0], base[1], …
inline ir::Array symbols_of_base(int32_t base, Shape shape) {
  ir::Array out(ir::ElementType::kSymbol, std::move(shape));
  int32_t index = 0;
  for (Symbol& s : out.mutable_as<Symbol>()) {
    s = element_of(base, index++);
  }
  return out;
}

}  // namespace kvern::passes::token_form
