// Tensor form: a graph as ONNX says it. Values are dense arrays of any rank, shapes are known only
// once a graph is evaluated; ops are named by domain, name and opset. The token form (graph.h) is
// what passes/token_form makes of it. docs/decisions/0011 says why the two are two classes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compile/ir/array.h"

namespace kvern::ir {

class TensorGraph;

// Index into TensorGraph::values; -1 where an optional input or output is left out.
using TensorValueId = int32_t;
inline constexpr TensorValueId kNoValue = -1;

using TensorAttr =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, Array, std::shared_ptr<const TensorGraph>>;

struct TensorNode {
  std::string domain;  // "" is ONNX's own ("ai.onnx" is read as ""); "com.microsoft"
  std::string op;      // "MatMul"
  int64_t opset = 0;   // version of `domain` that the file imports
  std::string name;    // what the file calls it; may be empty
  std::vector<TensorValueId> inputs;
  std::vector<TensorValueId> outputs;
  std::map<std::string, TensorAttr> attrs;

  bool has(std::string_view attr) const { return attrs.contains(std::string(attr)); }
  // The attribute, or `otherwise`. Throw Error(kInvalidModel) when it is of another kind.
  int64_t i(std::string_view attr, int64_t otherwise) const;
  double f(std::string_view attr, double otherwise) const;
  std::string s(std::string_view attr, std::string otherwise) const;
  std::vector<int64_t> ints(std::string_view attr, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> floats(std::string_view attr, std::vector<double> otherwise = {}) const;
  const Array* tensor(std::string_view attr) const;                       // nullptr when absent
  std::shared_ptr<const TensorGraph> graph(std::string_view attr) const;  // the same
  bool has_input(size_t index) const { return index < inputs.size() && inputs[index] != kNoValue; }
  bool has_output(size_t index) const {
    return index < outputs.size() && outputs[index] != kNoValue;
  }
  // "node 'layers.3/Attention_2' (Attention, opset 24)", for messages.
  std::string who() const;
};

// A number, or a name of the file ("past_sequence_length"); what files say of shapes is a hint.
struct TensorDim {
  int64_t value = -1;  // -1: `name` counts
  std::string name;
  friend bool operator==(const TensorDim&, const TensorDim&) = default;
};

struct TensorValue {
  std::string name;
  ElementType type = ElementType::kUndefined;  // of graph inputs and outputs, where declared
  bool has_shape = false;
  std::vector<TensorDim> dims;
};

class TensorGraph {
 public:
  std::vector<TensorValue> values;
  std::vector<TensorNode> nodes;      // every value is made before it is read
  std::vector<TensorValueId> inputs;  // without initializers
  std::vector<TensorValueId> outputs;
  std::unordered_map<TensorValueId, Array> constants;  // initializers
  // Of the body of an If, Loop or Scan: outer values that it reads, as (outer, own).
  std::vector<std::pair<TensorValueId, TensorValueId>> captures;

  TensorValueId add_value(std::string name);
  // kNoValue when there is none of that name.
  TensorValueId find(std::string_view name) const;
  const std::string& name_of(TensorValueId id) const {
    return values[static_cast<size_t>(id)].name;
  }
};

// A whole model in tensor form.
struct TensorModel {
  TensorGraph graph;
  int64_t ir_version = 0;
  std::string producer;                   // "pytorch 2.9.1"
  std::map<std::string, int64_t> opsets;  // by domain
  std::map<std::string, std::string> metadata;
};

// Text form, for tests and reports, and its inverse.
//   input %ids int64[batch, seq]
//   const %w float[2, 2] = {1, 2, 3, 4}
//   %y = MatMul(%x, %w) {axis = -1} opset 18
//   %z, _ = com.microsoft.SkipSimplifiedLayerNormalization(%x, _, %w) {epsilon = 1e-05}
//   output %y
// Bodies of If and Loop are printed as an attribute `then_branch = graph { … }`.
// `opset N` may be left out in parse: `default_opset` counts.
std::string print(const TensorGraph& graph);
TensorGraph parse_tensor_graph(std::string_view text, int64_t default_opset = 18);

// Throws Error(kInvalidModel) when a value is made twice or read before it is made.
void verify(const TensorGraph& graph);

}  // namespace kvern::ir
