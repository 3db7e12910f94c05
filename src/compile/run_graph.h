// An ONNX graph run as it is written, on the evaluator of tensor form: what `kvern run-graph` does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvern::compile {

struct GraphValue {
  std::string name;
  std::string type;   // "float", "int64", …
  std::string shape;  // "[batch, 8]"; empty where the file does not say
};

struct GraphOpCount {
  std::string domain;  // "" is ONNX's own
  std::string op;
  int64_t opset = 0;
  int64_t count = 0;
  bool supported = false;
};

struct GraphDescription {
  std::string path;  // of the .onnx file itself
  std::string producer;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain
  std::vector<GraphValue> inputs, outputs;
  std::vector<GraphOpCount> ops;  // bodies of If and Loop counted in
  std::vector<std::string> warnings;
};

// `model_path`: an .onnx file, or a folder that holds one. Throws as import::onnx::read_onnx.
GraphDescription describe_graph(const std::string& model_path);

struct RunGraphRequest {
  std::string model_path;
  std::string inputs_path;        // .npz; empty for a graph without inputs
  std::string outputs_path;       // .npz
  std::vector<std::string> also;  // values to write besides the outputs
  uint64_t max_bytes = 0;         // of all values alive at once
};

struct RunGraphResult {
  std::vector<GraphValue> outputs;  // as they were made
  double seconds = 0;               // of the run, without reading and writing
  std::vector<std::string> notes;
};

// Throws as read_onnx and eval::run_tensor_graph; Error(kInvalidArgument) names the inputs that the
// graph takes, with types and shapes. float32 stands in for types that npy lacks (bfloat16,
// float8).
RunGraphResult run_graph(const RunGraphRequest& request);

}  // namespace kvern::compile
