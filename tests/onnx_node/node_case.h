// One case of onnx/backend/test/data/node: a model, and inputs with the outputs that they give.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compile/import/onnx/reader.h"

namespace kvern::onnx_node {

struct NodeCase {
  import::onnx::OnnxModel model;
  std::vector<ir::Array> inputs;   // by position among the graph's inputs
  std::vector<ir::Array> outputs;  // that are wanted
};

// Throws kvern::Error for what the reader refuses: strings, sequences, optional values.
NodeCase read_case(const std::filesystem::path& folder);

// One node's op, or "graphs" where there are several: bodies of functions, mostly.
std::string op_of(const ir::TensorGraph& graph);

// Empty when `got` is near enough to `wanted`, otherwise what is wrong.
std::string difference(const ir::Array& got, const ir::Array& wanted);

}  // namespace kvern::onnx_node
