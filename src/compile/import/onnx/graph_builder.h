// GraphProto as a TensorGraph: names become ids, functions are inlined, Constant nodes become
// constants, bodies of If, Loop and Scan know what they capture, nodes are sorted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compile/import/onnx/tensor.h"
#include "compile/ir/tensor_graph.h"

namespace kvern::onnx_proto {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class NodeProto;
class ValueInfoProto;
}  // namespace kvern::onnx_proto

namespace kvern::import::onnx {

using Opsets = std::map<std::string, int64_t>;
using Attributes = std::map<std::string, ir::TensorAttr>;

// "ai.onnx" is the long name of "".
std::string normal_domain(std::string_view domain);

// What all graphs of one file share.
class ModelContext {
 public:
  ModelContext(const onnx_proto::ModelProto& model, TensorReader& tensors,
               std::vector<std::string>& warnings);

  // nullptr where the node is no call of a function of the file.
  const onnx_proto::FunctionProto* function_of(const onnx_proto::NodeProto& node) const;
  Opsets opsets_of(const onnx_proto::FunctionProto& function) const;
  // The version of `domain`; 1, with a warning, where the file says none.
  int64_t opset(const Opsets& opsets, const std::string& domain);

  Opsets opsets;
  TensorReader& tensors;
  std::vector<const onnx_proto::FunctionProto*> active;  // calls that are being inlined

 private:
  std::unordered_map<std::string, const onnx_proto::FunctionProto*> functions_;
  std::unordered_set<std::string> warned_;
  std::vector<std::string>& warnings_;
};

// Names of one graph, or of one call of a function: those values lie in the caller's graph.
class GraphBuilder {
 public:
  // `outer`: the graph around a body; nullptr elsewhere. `bound`: attributes of the call whose
  // function is read; nullptr outside functions.
  GraphBuilder(ModelContext& context, ir::TensorGraph& graph, GraphBuilder* outer,
               const Opsets& opsets, const Attributes* bound)
      : context_(context), graph_(graph), outer_(outer), opsets_(opsets), bound_(bound) {}

  void read_graph(const onnx_proto::GraphProto& graph);

 private:
  using Nodes = std::vector<const onnx_proto::NodeProto*>;

  // graph_builder.cpp: names
  ir::TensorValueId new_value(const std::string& name);
  ir::TensorValueId declare(const std::string& name, const char* as_what);
  void declare_outputs(const onnx_proto::NodeProto& node);
  // Nothing where no graph around makes it; kNoValue for an input that a call left out.
  std::optional<ir::TensorValueId> find(const std::string& name);
  ir::TensorValueId read_name(const std::string& name, const std::string& who);
  void read_inputs(const onnx_proto::GraphProto& graph);
  void describe(const onnx_proto::ValueInfoProto& info, ir::TensorValueId id);

  // node_builder.cpp
  void read_node(const onnx_proto::NodeProto& node);
  void add_node(const onnx_proto::NodeProto& node);
  void add_constant(const onnx_proto::NodeProto& node);
  Attributes read_attributes(const onnx_proto::NodeProto& node);
  ir::TensorAttr read_attribute(const onnx_proto::AttributeProto& attr, const std::string& who);

  // inline_function.cpp
  void inline_call(const onnx_proto::NodeProto& node, const onnx_proto::FunctionProto& function);
  void read_function(const onnx_proto::FunctionProto& function,
                     const std::vector<ir::TensorValueId>& inputs,
                     const std::vector<ir::TensorValueId>& outputs);

  ModelContext& context_;
  ir::TensorGraph& graph_;
  GraphBuilder* outer_;
  const Opsets& opsets_;
  const Attributes* bound_;
  std::string prefix_;  // of names of nodes and values: the calls around, "layer_0/"
  std::unordered_map<std::string, ir::TensorValueId> names_;
  // Names of graph_.values, and what to try behind each next; a call shares those of its caller.
  std::unordered_map<std::string, int64_t> own_taken_;
  std::unordered_map<std::string, int64_t>* taken_ = &own_taken_;
};

// Puts nodes behind what they read, leaving the order where it is right. Throws
// Error(kInvalidModel) naming the nodes of a cycle.
void sort_nodes(ir::TensorGraph& graph);

// "node 'layers.3/Attention_2' (Attention)", for messages.
std::string who_is(const onnx_proto::NodeProto& node);

}  // namespace kvern::import::onnx
