#include "compile/passes/token_form/find_ids.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compile/passes/token_form/feeds.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

using ir::TensorGraph;
using ir::TensorNode;
using ir::TensorValueId;

// Steps between an input and the Gather that it chooses by, and between a table and its use.
constexpr int kMostSteps = 4;

class Uses {
 public:
  explicit Uses(const TensorGraph& graph) : graph_(graph) {
    for (const TensorNode& node : graph.nodes) {
      for (const TensorValueId id : node.outputs) makers_[id] = &node;
    }
  }

  // The value that casts and reshapes of `id` begin with.
  TensorValueId origin(TensorValueId id) const {
    for (int step = 0; step < kMostSteps; ++step) {
      const auto maker = makers_.find(id);
      if (maker == makers_.end() || !maker->second->has_input(0)) break;
      const std::string& op = maker->second->op;
      if (op != "Cast" && op != "Reshape" && op != "Squeeze" && op != "Unsqueeze" &&
          op != "Identity" && op != "DequantizeLinear" && op != "Transpose") {
        break;
      }
      id = maker->second->inputs[0];
    }
    return id;
  }

  bool is_matrix(TensorValueId id) const {
    const auto found = graph_.constants.find(origin(id));
    return found != graph_.constants.end() && found->second.rank() == 2;
  }

 private:
  const TensorGraph& graph_;
  std::map<TensorValueId, const TensorNode*> makers_;
};

bool may_be_ids(const TensorGraph& graph, TensorValueId id, const TokenFormOptions& options) {
  const ir::TensorValue& value = graph.values[static_cast<size_t>(id)];
  const bool taken =
      !declared_as(options, value.name).empty() || value.name.find("position") != std::string::npos;
  return !taken && ir::is_integer(value.type) && value.dims.size() == 2;
}

// Inputs that choose rows of a matrix.
std::vector<TensorValueId> choosers(const TensorGraph& graph, const TokenFormOptions& options) {
  const Uses uses(graph);
  std::vector<TensorValueId> out;
  for (const TensorNode& node : graph.nodes) {
    if (node.op != "Gather" && node.op != "GatherBlockQuantized") continue;
    if (!node.has_input(0) || !node.has_input(1) || !uses.is_matrix(node.inputs[0])) continue;
    const TensorValueId id = uses.origin(node.inputs[1]);
    const bool is_input =
        std::find(graph.inputs.begin(), graph.inputs.end(), id) != graph.inputs.end();
    const bool is_new = std::find(out.begin(), out.end(), id) == out.end();
    if (is_input && is_new && may_be_ids(graph, id, options)) out.push_back(id);
  }
  return out;
}

std::string names_of(const TensorGraph& graph, const std::vector<TensorValueId>& ids) {
  std::vector<std::string> names;
  for (const TensorValueId id : ids) names.push_back(shown(graph.values[static_cast<size_t>(id)]));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string declared_as(const TokenFormOptions& options, const std::string& input) {
  const auto found = options.inputs.find(input);
  return found == options.inputs.end() ? "" : found->second;
}

TensorValueId find_ids(const TensorGraph& graph, const TokenFormOptions& options) {
  for (const char* how : {"declared", "named"}) {
    for (const TensorValueId id : graph.inputs) {
      const std::string& name = graph.name_of(id);
      const bool is_declared = declared_as(options, name) == "ids";
      if (how == std::string_view("declared") ? is_declared : name == "input_ids") return id;
    }
  }
  const std::vector<TensorValueId> found = choosers(graph, options);
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    throw Error(Code::kUnsupported,
                fmt::format("onnx: no input holds token ids (looked for 'input_ids' and for one "
                            "of integers [batch, length] that chooses rows of an embedding); the "
                            "graph's inputs are {}; say which it is with --input NAME=ids",
                            names_of(graph, {graph.inputs.begin(), graph.inputs.end()})));
  }
  throw Error(Code::kUnsupported,
              fmt::format("onnx: several inputs choose rows of a matrix, and none is called "
                          "'input_ids': {}; say which one holds the ids of tokens with --input "
                          "NAME=ids (and --input NAME=positions, NAME=mask of others)",
                          names_of(graph, found)));
}

}  // namespace kvern::passes::token_form
