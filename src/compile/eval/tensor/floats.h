// Ops that compute in f32 whatever floats they are given: in and out again.
#pragma once

#include "compile/eval/tensor/tensor_eval.h"

namespace kvern::eval {

// Any float or integer type as f32; the array itself when it is f32 already.
Array to_floats(const Array& array);
// An f32 array as `type`, one of the float types (halves: to nearest even).
Array from_floats(const Array& array, ElementType type);
// Input `index` as f32; throws naming the node when it is left out or holds no floats.
Array floats_in(const OpCall& call, size_t index);
// The same with a shape that must be `shape`.
Array floats_in(const OpCall& call, size_t index, const Shape& shape);

}  // namespace kvern::eval
