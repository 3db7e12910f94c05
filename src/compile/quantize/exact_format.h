// Which storage formats hold which others without loss.
#pragma once

#include <string>
#include <vector>

#include "compile/ir/graph.h"

namespace kvern::quantize {

// A format that holds every value of both. Rows of different block formats that one GEMM joins meet
// in the wider codes, the smaller groups and the finer scales.
QuantFormat join(const QuantFormat& a, const QuantFormat& b);

// What holds every value of the weight's sources. Vectors and literals: f32.
QuantFormat exact_format(const ir::Graph& graph, const ir::Weight& weight);

// True when integer codes of `source` can be stored in `target` as they are, so that only scales
// and minima may need rounding (and need none when holds_exactly says so).
bool holds_codes(const QuantFormat& target, const QuantFormat& source);
bool holds_exactly(const QuantFormat& target, const QuantFormat& source);

// What holds each of the tensors that the weight is made of.
std::vector<QuantFormat> part_formats(const ir::Graph& graph, const ir::Weight& weight);

// "Q4_1", or "Q4_K+Q6_K" where sources differ.
std::string source_names(const ir::Graph& graph, const ir::Weight& weight);

}  // namespace kvern::quantize
