// What the inputs of an export hold in a world of concrete sizes: for the walk, which folds them,
// and for a proof, which runs the file as it is.
#pragma once

#include <span>

#include "compile/passes/token_form/inputs.h"

namespace kvern::passes::token_form {

// Masks, positions and lengths: everything but ids and caches. The first pads[b] tokens of sequence
// b are none: masks hide them, positions begin behind them; empty: no sequence has any. Throws
// Error(kUnsupported | kInvalidArgument) for what cannot be made.
ir::Array input_array(const ir::TensorGraph& graph, const InputPlan& plan,
                      const InputPlan::Line& line, const TokenFormOptions& options, const World& w,
                      std::span<const int64_t> pads = {});

Shape past_shape(const ir::TensorGraph& graph, const InputPlan::Line& line, const World& w);

// Integers, repeated to fill the shape, as the type that an input declares.
ir::Array ids_like(ir::ElementType type, Shape shape, const std::vector<int64_t>& values);

// Exporters write fixed sizes as names too: "16".
ir::TensorDim resolved(const ir::TensorDim& dim);
// "'input_ids' (int64 [batch, 8])", for messages.
std::string shown(const ir::TensorValue& value);

}  // namespace kvern::passes::token_form
