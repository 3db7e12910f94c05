// softmax(scores) V: what it means for the tokens, and its token form.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

// The product q k^T of two views, as scores.
Value make_scores(Walk& walk, const ir::TensorNode& node, const View& q, const View& k,
                  std::vector<Shape> shapes);
// Adds a constant, per world of a shape that broadcasts.
void add_bias(Scores& scores, const std::vector<ir::Array>& bias);
// The attention that `probabilities` (normalised) and V make; throws naming what does not fit.
Value attend(Walk& walk, const ir::TensorNode& node, const Value& probabilities, const View& v,
             ir::ElementType type, std::vector<Shape> shapes);

// At the end: the outputs that return caches are those that the states say.
void check_states(Walk& walk);

// `array` [shape that broadcasts] in full.
ir::Array broadcast(const ir::Array& array, const Shape& shape);

}  // namespace kvern::passes::token_form
