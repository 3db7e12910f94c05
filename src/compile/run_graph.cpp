#include "compile/run_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <tuple>

#include "compile/eval/tensor/npz.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "compile/import/onnx/reader.h"
#include "compile/output_path.h"
#include "kvern/error.h"

namespace kvern::compile {
namespace {

using ir::Array;
using ir::ElementType;

std::string onnx_path(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::string found = import::onnx::find_onnx(path);
  if (found.empty()) {
    throw Error(Code::kNotFound, fmt::format("the folder '{}' holds no .onnx file", path));
  }
  return found;
}

GraphValue describe(const ir::TensorValue& value) {
  std::string dims;
  for (const ir::TensorDim& dim : value.dims) {
    dims += dims.empty() ? "" : ", ";
    dims += dim.value >= 0 ? std::to_string(dim.value) : dim.name.empty() ? "?" : dim.name;
  }
  return {value.name, std::string(ir::element_type_name(value.type)),
          value.has_shape ? fmt::format("[{}]", dims) : ""};
}

using OpCounts = std::map<std::tuple<std::string, std::string, int64_t>, int64_t>;

void count_ops(const ir::TensorGraph& graph, OpCounts& counts) {
  for (const ir::TensorNode& node : graph.nodes) {
    ++counts[{node.domain, node.op, node.opset}];
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body != nullptr) count_ops(**body, counts);
    }
  }
}

bool has_npy_type(ElementType type) {
  switch (type) {
    case ElementType::kBfloat16:
    case ElementType::kFloat8E4M3Fn:
    case ElementType::kFloat8E4M3Fnuz:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2Fnuz:
    case ElementType::kFloat4E2M1:
    case ElementType::kUint4:
    case ElementType::kInt4:
      return false;
    default:
      return true;
  }
}

// What npy has no type for is given as a number of another type.
void cast_inputs(const ir::TensorGraph& graph, std::map<std::string, Array>& inputs) {
  for (const ir::TensorValueId id : graph.inputs) {
    const ir::TensorValue& value = graph.values[static_cast<size_t>(id)];
    const auto given = inputs.find(value.name);
    if (given == inputs.end() || has_npy_type(value.type)) continue;
    ir::TensorNode cast;
    cast.op = "Cast";
    cast.opset = 21;
    cast.name = "input " + value.name;
    cast.attrs["to"] = static_cast<int64_t>(value.type);
    const Array* from = &given->second;
    given->second = eval::run_tensor_node(cast, {&from, 1}).front();
  }
}

}  // namespace

GraphDescription describe_graph(const std::string& model_path) {
  GraphDescription out;
  out.path = onnx_path(model_path);
  const import::onnx::OnnxModel read = import::onnx::read_onnx(out.path);
  out.producer = read.model.producer;
  out.ir_version = read.model.ir_version;
  out.opsets = read.model.opsets;
  out.warnings = read.warnings;
  const ir::TensorGraph& graph = read.model.graph;
  for (const auto id : graph.inputs)
    out.inputs.push_back(describe(graph.values[static_cast<size_t>(id)]));
  for (const auto id : graph.outputs)
    out.outputs.push_back(describe(graph.values[static_cast<size_t>(id)]));
  OpCounts counts;
  count_ops(graph, counts);
  for (const auto& [key, count] : counts) {
    ir::TensorNode node;
    std::tie(node.domain, node.op, node.opset) = key;
    out.ops.push_back(
        {node.domain, node.op, node.opset, count, eval::find_tensor_op(node) != nullptr});
  }
  return out;
}

RunGraphResult run_graph(const RunGraphRequest& request) {
  const import::onnx::OnnxModel read = import::onnx::read_onnx(onnx_path(request.model_path));
  const ir::TensorGraph& graph = read.model.graph;
  std::map<std::string, Array> inputs;
  std::vector<std::string> sources = {request.inputs_path};
  for (const auto& file : read.files) sources.push_back(file->path());
  check_output(request.outputs_path, OutputKind::kArrays, request.model_path, sources);
  const auto wanted = [&](const std::string& name) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                       [&](ir::TensorValueId id) { return graph.name_of(id) == name; });
  };
  if (!request.inputs_path.empty()) inputs = eval::read_npz(request.inputs_path, wanted);
  cast_inputs(graph, inputs);
  eval::TensorRunOptions options;
  if (request.max_bytes != 0) options.max_bytes = request.max_bytes;
  options.also = request.also;
  RunGraphResult out;
  const auto begin = std::chrono::steady_clock::now();
  const std::map<std::string, Array> outputs = eval::run_tensor_graph(graph, inputs, options);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  out.notes = read.warnings;
  for (const std::string& note : eval::write_npz(request.outputs_path, outputs)) {
    out.notes.push_back(note);
  }
  for (const auto& [name, array] : outputs) {
    out.outputs.push_back(
        {name, std::string(ir::element_type_name(array.type())), to_string(array.shape())});
  }
  return out;
}

}  // namespace kvern::compile
