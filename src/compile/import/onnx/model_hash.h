// What a model in tensor form is, in 16 digits.
#pragma once

#include <functional>
#include <string>

#include "compile/ir/tensor_graph.h"

namespace kvern::import::onnx {

// Over names, types, shapes and elements of all constants and over the nodes; not over where the
// files have them, names of nodes or metadata. progress(done_bytes, total_bytes) may be empty.
std::string hash_model(const ir::TensorModel& model,
                       const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace kvern::import::onnx
