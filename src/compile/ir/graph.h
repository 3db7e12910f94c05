// The graph: SSA values and the nodes that make them, in an order in which every value is defined
// before it is used. Weights are named entries beside the nodes, with recipes instead of data.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/strong_id.h"
#include "compile/ir/op.h"
#include "compile/ir/recipe.h"
#include "compile/ir/type.h"

namespace kvern::ir {

using ValueId = StrongId<struct ValueTag>;

struct Node {
  const OpSchema* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string source_name;  // what the file called it: "layers.3/Attention_2"; may be empty
};

struct Value {
  std::string name;  // unique in the graph, printed as %name
  Type type;
};

class Graph {
 public:
  std::string family;              // "llama"
  std::vector<std::string> files;  // source files, named relative to the model
  std::vector<WeightSource> sources;
  std::vector<Weight> weights;

  // Appends a node; output types come from the op's schema, output names from `name` (made unique;
  // several outputs get name.0, name.1, …). Throws Error(kInvalidModel) where the schema refuses.
  std::vector<ValueId> add(const OpSchema& op, std::vector<ValueId> inputs, Attrs attrs,
                           const std::string& name, const std::string& source_name = "");
  // The same, before position `index` of nodes(); for passes.
  std::vector<ValueId> insert(size_t index, const OpSchema& op, std::vector<ValueId> inputs,
                              Attrs attrs, const std::string& name);
  // For ops of one output.
  ValueId add1(const OpSchema& op, std::vector<ValueId> inputs, Attrs attrs,
               const std::string& name);

  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node>& nodes() { return nodes_; }
  const Value& value(ValueId id) const;
  size_t num_values() const { return values_.size(); }

  // Index into nodes() of the node that makes `id`.
  size_t producer(ValueId id) const;
  // Indices of the nodes that read `id`, in order; the graph's outputs are nodes of op `output`.
  std::vector<size_t> users(ValueId id) const;
  void replace_all_uses(ValueId from, ValueId to);
  // Removes the nodes at these indices; their outputs must have no users left.
  void erase(std::vector<size_t> node_indices);
  // A name like `hint` that no value has yet.
  std::string unique_name(const std::string& hint) const;
  // The next value gets `name`; used by the parser.
  void rename(ValueId id, const std::string& name);

  int weight_index(const std::string& name) const;  // -1 when absent

 private:
  std::vector<ValueId> make_outputs(Node& node, std::string name);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::unordered_map<std::string, int32_t> names_;
  // Where producer() and weight_index() look first; nodes and weights move. A Graph is one
  // thread's.
  mutable std::vector<size_t> producers_;
  mutable std::unordered_map<std::string, size_t> weight_places_;
};

// Throws InternalError with the node when an invariant is broken: types as inferred, values defined
// before use, one definition each, `!kv` values used only by ops with state, weights that exist.
void verify(const Graph& graph);

// The text form and its inverse. `print` then `parse` gives an equal graph.
std::string print(const Graph& graph);
// Throws Error(kInvalidModel) with line and column.
Graph parse(std::string_view text);

// Files, sources and weights with their recipes alone, as `print` shows them; and the inverse,
// which replaces those of `graph`.
std::string print_recipes(const Graph& graph);
void parse_recipes(std::string_view text, Graph& graph);

}  // namespace kvern::ir
