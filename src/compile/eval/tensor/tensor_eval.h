// Runs graphs in tensor form on plain implementations: the oracle of every import, `kvern
// run-graph`, and what folds constants. Results follow the newest release of the ONNX standard
// (1.22) where releases differ.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/ir/tensor_graph.h"

namespace kvern::eval {

using ir::Array;
using ir::ElementType;
using ir::TensorGraph;
using ir::TensorNode;

// What one op is given. inputs[i] is nullptr where an optional input is left out.
struct OpCall {
  const TensorNode& node;
  std::span<const Array* const> inputs;
  // Runs a body (If, Loop, Scan) with its own inputs and the values that it captured; set by
  // run_tensor_graph, empty where a node is evaluated alone.
  std::function<std::vector<Array>(const TensorGraph& body, std::span<const Array> inputs)>
      run_body;
  int64_t max_loop_trips = 100000;

  bool has(size_t index) const { return index < inputs.size() && inputs[index] != nullptr; }
  // Throws Error(kInvalidModel) naming the node when it is left out.
  const Array& in(size_t index) const;
  [[noreturn]] void fail(const std::string& problem) const;         // Error(kInvalidModel)
  [[noreturn]] void unsupported(const std::string& problem) const;  // Error(kUnsupported)
};

using TensorEvalFn = std::vector<Array> (*)(const OpCall& call);

// One line of the op table. The newest line whose range holds the node's opset counts.
struct TensorOp {
  const char* domain;  // "", "com.microsoft"
  const char* op;
  int since;
  int until;  // last opset of this meaning; kNewest: still so
  TensorEvalFn eval;
};
inline constexpr int kNewest = 1 << 20;

std::span<const TensorOp> all_tensor_ops();
// nullptr when there is none.
const TensorOp* find_tensor_op(const TensorNode& node);
// Throws Error(kUnsupported) naming node, op, opset, which opsets there are, and what to do.
const TensorOp& require_tensor_op(const TensorNode& node);

// The outputs of one node; outputs that the node leaves out may be missing or empty Arrays.
std::vector<Array> run_tensor_node(const TensorNode& node, std::span<const Array* const> inputs);

struct TensorRunOptions {
  // Bytes of all values alive at once. Error(kOutOfMemory) above, naming the node.
  uint64_t max_bytes = uint64_t{8} << 30;
  int64_t max_loop_trips = 100000;
  // Values to return besides the outputs, by name.
  std::vector<std::string> also;
};

// The graph's outputs (and `also`) by name. Values die after their last reader. Throws
// Error(kInvalidArgument) for an input that is missing, of another type or against a fixed dim.
std::map<std::string, Array> run_tensor_graph(const TensorGraph& graph,
                                              const std::map<std::string, Array>& inputs,
                                              const TensorRunOptions& options = {});

// What is known of a node's inputs where their elements are not.
struct TensorFact {
  ElementType type = ElementType::kUndefined;
  Shape shape;
  const Array* value = nullptr;  // where the elements are known too
};
// Types and shapes of the outputs without computing them. Throws as run_tensor_node, and
// Error(kUnsupported) for an op whose output shapes follow from elements that are not known.
std::vector<TensorFact> infer_tensor_node(const TensorNode& node,
                                          std::span<const TensorFact* const> inputs);

}  // namespace kvern::eval
