#include <algorithm>
#include <unordered_map>

#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {
namespace {

// Ops of which each row of the result depends on that row of the inputs alone.
constexpr const ir::OpSchema* kRowWise[] = {
    &ir::ops::kRmsNorm,    &ir::ops::kAddRmsNorm, &ir::ops::kLayerNorm,   &ir::ops::kLinear,
    &ir::ops::kSplit,      &ir::ops::kAdd,        &ir::ops::kMul,         &ir::ops::kSilu,
    &ir::ops::kSiluMul,    &ir::ops::kGeluTanh,   &ir::ops::kGeluTanhMul, &ir::ops::kGeluErf,
    &ir::ops::kGeluErfMul, &ir::ops::kScale,      &ir::ops::kSoftcap,     &ir::ops::kMap,
    &ir::ops::kSelect,     &ir::ops::kRowReduce,  &ir::ops::kRelu,        &ir::ops::kQuickGelu,
    &ir::ops::kTanh,       &ir::ops::kSigmoid,
};

bool is_logits(const ir::Node& node) {
  return node.op == &ir::ops::kOutput && node.attrs.as<ir::OutputAttrs>().name == "logits";
}

bool has_token_rows(const ir::Type& type) {
  return !type.is_kv() && !type.dims.empty() && type.dims[0] == ir::Dim(ir::kTokens);
}

// Per node: row-wise, and everything that reads it ends in the logits without passing the KV cache.
std::vector<bool> find_tail(const ir::Graph& graph) {
  const std::vector<ir::Node>& nodes = graph.nodes();
  std::vector<bool> tail(nodes.size(), false);
  std::vector<bool> used(graph.num_values(), false);
  std::vector<bool> used_outside(graph.num_values(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    bool any_use = false;
    bool only_tail =
        std::find(std::begin(kRowWise), std::end(kRowWise), nodes[i].op) != std::end(kRowWise);
    for (const ir::ValueId id : nodes[i].outputs) {
      const auto value = static_cast<size_t>(id.value);
      any_use = any_use || used[value];
      only_tail = only_tail && has_token_rows(graph.value(id).type) && !used_outside[value];
    }
    tail[i] = is_logits(nodes[i]) || (any_use && only_tail);
    for (const ir::ValueId id : nodes[i].inputs) {
      used[static_cast<size_t>(id.value)] = true;
      if (!tail[i]) used_outside[static_cast<size_t>(id.value)] = true;
    }
  }
  return tail;
}

// Builds the tail again, at the end of the graph, over the wanted rows.
class TailBuilder {
 public:
  explicit TailBuilder(ir::Graph& graph) : graph_(graph) {
    ir::InputAttrs attrs{.name = ir::kWanted, .rows = ir::kWanted};
    wanted_ = graph.add1(ir::ops::kInput, {}, ir::Attrs::of(attrs), ir::kWanted);
  }

  void copy(const ir::Node& node) {
    std::vector<ir::ValueId> inputs;
    for (const ir::ValueId id : node.inputs) inputs.push_back(wanted_rows(id));
    const std::string hint = node.outputs.empty() ? "" : graph_.value(node.outputs[0]).name;
    const std::vector<ir::ValueId> made =
        graph_.add(*node.op, std::move(inputs), node.attrs, hint, node.source_name);
    for (size_t i = 0; i < made.size(); ++i) {
      rows_[node.outputs[i]] = made[i];
      exchanged_.emplace_back(node.outputs[i], made[i]);
    }
  }

  void finish(std::vector<size_t> old_nodes) { exchange(graph_, exchanged_, std::move(old_nodes)); }

 private:
  ir::ValueId wanted_rows(ir::ValueId id) {
    const auto known = rows_.find(id);
    if (known != rows_.end()) return known->second;
    if (!has_token_rows(graph_.value(id).type)) return id;  // a weight
    const ir::ValueId made =
        graph_.add1(ir::ops::kGatherRows, {id, wanted_}, {}, graph_.value(id).name + ".wanted");
    rows_[id] = made;
    return made;
  }

  ir::Graph& graph_;
  ir::ValueId wanted_;
  std::unordered_map<ir::ValueId, ir::ValueId> rows_;
  std::vector<std::pair<ir::ValueId, ir::ValueId>> exchanged_;
};

bool wants_rows_already(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return node.op == &ir::ops::kInput && node.attrs.as<ir::InputAttrs>().name == ir::kWanted;
  });
}

}  // namespace

PassReport last_rows(ir::Graph& graph) {
  PassReport report;
  const std::vector<bool> tail = find_tail(graph);
  std::vector<size_t> old_nodes;
  for (size_t i = 0; i < tail.size(); ++i) {
    if (tail[i]) old_nodes.push_back(i);
  }
  const auto narrow = [&](size_t i) {
    return is_logits(graph.nodes()[i]) &&
           has_token_rows(graph.value(graph.nodes()[i].inputs[0]).type);
  };
  if (wants_rows_already(graph) || std::none_of(old_nodes.begin(), old_nodes.end(), narrow)) {
    return report;
  }
  TailBuilder builder(graph);
  for (const size_t i : old_nodes) {
    const ir::Node node = graph.nodes()[i];
    builder.copy(node);
  }
  report.num_changes = static_cast<int>(old_nodes.size());
  builder.finish(std::move(old_nodes));
  return report;
}

}  // namespace kvern::passes
