// A weight's bytes as the plan holds them: matrices packed for the kernels, vectors as dense f32.
#pragma once

#include <span>

#include "compile/quantize/materialize.h"

namespace kvern::quantize {

// Fills `to`, whose size is what lowering gave the weight. Where storing rounded (note.exact is
// false) the note's error figures are filled.
void write_packed(const ir::Graph& graph, const ir::Weight& weight, const Files& files,
                  WeightNote& note, std::span<std::byte> to);

}  // namespace kvern::quantize
