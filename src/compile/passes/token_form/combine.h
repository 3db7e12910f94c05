// Functions of the elements of several values, token by token.
#pragma once

#include "compile/passes/token_form/walk.h"
#include "tensor/map_program.h"

namespace kvern::passes::token_form {

// A value as a function of the elements of a view; x itself is one.
struct OfView {
  std::shared_ptr<const View> x;
  ExprPtr f;
};
// nullopt (and `why`) for what is no activation. Means over features are written now.
std::optional<OfView> of_view(Walk& walk, Value& value, std::string* why);

Value func_value(ir::ElementType type, std::vector<Shape> shapes, std::shared_ptr<const View> x,
                 ExprPtr f);

// f over the elements of `values`, each broadcast to `shapes`, of which at least one is of
// activations: of one view a function for later, of several a `map` now. Constants must be alike
// for every token.
Value combine(const RuleCall& call, const ExprPtr& f, std::span<Value* const> values,
              ir::ElementType type, std::vector<Shape> shapes);

// Why elements that meet are not of one token.
inline constexpr const char* kCrosses =
    "it combines activations of one token with those of others, which mixes tokens: it cannot be "
    "converted";
// Why a function has no `map`.
inline constexpr const char* kNoMap =
    "it ends a function of activations of more than 512 steps or 12 values at once, or with a "
    "constant that is not finite, which is not supported";

// True where every row of its last axis is the same one, in all worlds.
bool rows_alike(const Walk& walk, Value& constant);

}  // namespace kvern::passes::token_form
