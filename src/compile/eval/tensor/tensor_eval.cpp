#include "compile/eval/tensor/tensor_eval.h"

#include <fmt/format.h>

#include <unordered_map>

#include "kvern/error.h"

namespace kvern::eval {
namespace {

std::string versions_of(const TensorNode& node) {
  std::string out;
  for (const TensorOp& op : all_tensor_ops()) {
    if (node.domain != op.domain || node.op != op.op) continue;
    out += out.empty() ? "" : ", ";
    out += op.until == kNewest ? fmt::format("{} and newer", op.since)
                               : fmt::format("{} to {}", op.since, op.until);
  }
  return out;
}

// What else exports the same thing; empty when nothing comes to mind.
std::string advice_for(const TensorNode& node) {
  if (node.domain.empty()) {
    return "export with opset 18 to 24, or make the op part of a model-local function";
  }
  if (node.op == "MatMulBnb4") {
    return "quantise into MatMulNBits instead of the 4 bits of bitsandbytes, or export the floats";
  }
  if (node.domain == "com.microsoft") {
    return "export without ONNX Runtime's optimizer (optimization level 0), which writes this op";
  }
  return fmt::format("export without the domain '{}', or with its ops as model-local functions",
                     node.domain);
}

}  // namespace

const Array& OpCall::in(size_t index) const {
  if (!has(index)) fail(fmt::format("input {} is wanted and left out", index));
  return *inputs[index];
}

void OpCall::fail(const std::string& problem) const {
  throw Error(Code::kInvalidModel, fmt::format("onnx: {}: {}", node.who(), problem));
}

void OpCall::unsupported(const std::string& problem) const {
  throw Error(Code::kUnsupported, fmt::format("onnx: {}: {}", node.who(), problem));
}

const TensorOp* find_tensor_op(const TensorNode& node) {
  static const auto by_name = [] {
    std::unordered_multimap<std::string_view, const TensorOp*> out;
    for (const TensorOp& op : all_tensor_ops()) out.emplace(op.op, &op);
    return out;
  }();
  const TensorOp* found = nullptr;
  const auto [begin, end] = by_name.equal_range(node.op);
  for (auto it = begin; it != end; ++it) {
    const TensorOp* op = it->second;
    if (node.opset < op->since || node.opset > op->until || node.domain != op->domain) continue;
    if (found == nullptr || op->since >= found->since) found = op;
  }
  return found;
}

const TensorOp& require_tensor_op(const TensorNode& node) {
  if (const TensorOp* op = find_tensor_op(node)) return *op;
  const std::string versions = versions_of(node);
  throw Error(Code::kUnsupported,
              fmt::format("onnx: {} is not supported; {}{}", node.who(),
                          versions.empty() ? "" : fmt::format("opsets are {}; ", versions),
                          advice_for(node)));
}

std::vector<Array> run_tensor_node(const TensorNode& node, std::span<const Array* const> inputs) {
  return require_tensor_op(node).eval({node, inputs, {}});
}

}  // namespace kvern::eval
