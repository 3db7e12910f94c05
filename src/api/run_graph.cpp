#include "compile/run_graph.h"

#include <fmt/format.h>

#include "kvern/build.h"

namespace kvern {
namespace {

std::vector<GraphPort> ports_of(const std::vector<compile::GraphValue>& values) {
  std::vector<GraphPort> out;
  for (const compile::GraphValue& value : values) {
    out.push_back({value.name, value.type, value.shape});
  }
  return out;
}

}  // namespace

GraphSummary summarize_graph(const std::string& model_path) {
  const compile::GraphDescription graph = compile::describe_graph(model_path);
  GraphSummary out;
  out.path = graph.path;
  out.producer = graph.producer;
  out.ir_version = graph.ir_version;
  for (const auto& [domain, version] : graph.opsets) {
    out.opsets.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : domain, version));
  }
  out.inputs = ports_of(graph.inputs);
  out.outputs = ports_of(graph.outputs);
  for (const compile::GraphOpCount& op : graph.ops) {
    out.ops.push_back({op.domain, op.op, op.opset, op.count, op.supported});
  }
  out.warnings = graph.warnings;
  return out;
}

RunGraphResult run_graph(const std::string& model_path, const std::string& inputs_npz,
                         const std::string& outputs_npz, const RunGraphOptions& options) {
  compile::RunGraphRequest request;
  request.model_path = model_path;
  request.inputs_path = inputs_npz;
  request.outputs_path = outputs_npz;
  request.also = options.also;
  request.max_bytes = options.max_memory_bytes;
  const compile::RunGraphResult ran = compile::run_graph(request);
  return {ports_of(ran.outputs), ran.seconds, ran.notes};
}

}  // namespace kvern
