// Calls of a file's own functions are replaced by the function's nodes, with fresh names.
#include <fmt/format.h>
#include <onnx_messages.pb.h>

#include <algorithm>

#include "compile/import/onnx/graph_builder.h"
#include "compile/import/onnx/refuse.h"

namespace kvern::import::onnx {
namespace {

constexpr size_t kMaxCallDepth = 32;

}  // namespace

void GraphBuilder::inline_call(const onnx_proto::NodeProto& node,
                               const onnx_proto::FunctionProto& function) {
  const std::string who = who_is(node);
  if (std::ranges::find(context_.active, &function) != context_.active.end()) {
    fail(fmt::format("{} calls function '{}' from within itself", who, shown(function.name())));
  }
  if (context_.active.size() >= kMaxCallDepth) {
    fail(fmt::format("{} calls functions nested more than {} deep", who, kMaxCallDepth));
  }
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    fail(fmt::format("{} gives {} inputs and takes {} outputs; the function has {} and {}", who,
                     node.input_size(), node.output_size(), function.input_size(),
                     function.output_size()));
  }
  Attributes bound = read_attributes(node);
  for (const auto& attr : function.attribute_proto()) {
    if (!bound.contains(attr.name())) bound.emplace(attr.name(), read_attribute(attr, who));
  }
  std::vector<ir::TensorValueId> inputs(static_cast<size_t>(function.input_size()), ir::kNoValue);
  for (int i = 0; i < node.input_size(); ++i) {
    inputs[static_cast<size_t>(i)] = read_name(node.input(i), who);
  }
  std::vector<ir::TensorValueId> outputs(static_cast<size_t>(function.output_size()), ir::kNoValue);
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) outputs[static_cast<size_t>(i)] = names_.at(node.output(i));
  }
  const Opsets opsets = context_.opsets_of(function);
  // Nothing of the caller's names is seen inside: no outer.
  GraphBuilder body(context_, graph_, nullptr, opsets, &bound);
  body.taken_ = taken_;
  const std::string& label = node.name().empty() ? node.op_type() : node.name();
  body.prefix_ = prefix_ + shown(label) + "/";
  context_.tensors.budget().charge_node();
  context_.active.push_back(&function);
  body.read_function(function, inputs, outputs);
  context_.active.pop_back();
}

void GraphBuilder::read_function(const onnx_proto::FunctionProto& function,
                                 const std::vector<ir::TensorValueId>& inputs,
                                 const std::vector<ir::TensorValueId>& outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = function.input(static_cast<int>(i));
    if (name.empty() || !names_.emplace(name, inputs[i]).second) {
      fail(
          fmt::format("function '{}': input {} has no name of its own", shown(function.name()), i));
    }
  }
  // A result that the caller wants is made under the caller's id.
  std::unordered_map<std::string, ir::TensorValueId> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != ir::kNoValue) {
      results.emplace(function.output(static_cast<int>(i)), outputs[i]);
    }
  }
  std::unordered_set<ir::TensorValueId> made;
  for (const auto& node : function.node()) {
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      const auto result = results.find(name);
      if (result == results.end()) {
        declare(name, who_is(node).c_str());
        continue;
      }
      if (!names_.emplace(name, result->second).second) {
        fail(fmt::format("function '{}': {} makes '{}', which is made before",
                         shown(function.name()), who_is(node), shown(name)));
      }
      made.insert(result->second);
    }
  }
  for (const auto& node : function.node()) read_node(node);
  const std::string who =
      fmt::format("the list of outputs of function '{}'", shown(function.name()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == ir::kNoValue || made.contains(outputs[i])) continue;
    // An input that is handed on, or one value for two results.
    const ir::TensorValueId from = read_name(function.output(static_cast<int>(i)), who);
    if (from == ir::kNoValue) fail(fmt::format("{} names an input that is left out", who));
    ir::TensorNode copy;
    copy.op = "Identity";
    copy.opset = context_.opset(opsets_, "");
    copy.name = prefix_ + "Identity";
    copy.inputs = {from};
    copy.outputs = {outputs[i]};
    context_.tensors.budget().charge_node();
    graph_.nodes.push_back(std::move(copy));
  }
}

}  // namespace kvern::import::onnx
