#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compile/passes/match.h"
#include "compile/passes/passes.h"

namespace kvern::passes {
namespace {

// Linears that may become one: q, k, v of an attention, or gate and up of an MLP.
struct Group {
  const char* name = "";             // "qkv", "gate_up": the last part of the joined name
  std::vector<ir::ValueId> outputs;  // of the linears, in the order of the split
};

bool is_linear(const ir::Graph& graph, ir::ValueId id) {
  return producer_node(graph, id).op == &ir::ops::kLinear;
}

// The linear behind a rotation and a norm, where they are.
ir::ValueId behind_rope(const ir::Graph& graph, ir::ValueId id) {
  for (const ir::OpSchema* op : {&ir::ops::kRope, &ir::ops::kRmsNorm}) {
    const ir::Node& node = producer_node(graph, id);
    if (node.op == op) id = node.inputs[0];
  }
  return id;
}

Group qkv_of(const ir::Graph& graph, const ir::Node& attention) {
  const ir::Node& append = producer_node(graph, attention.inputs[1]);
  if (append.op != &ir::ops::kKvAppend) return {};
  return {"qkv",
          {behind_rope(graph, attention.inputs[0]), behind_rope(graph, append.inputs[0]),
           append.inputs[1]}};
}

Group gate_up_of(const ir::Graph& graph, const ir::Node& mul) {
  for (const size_t side : {0, 1}) {
    const ir::Node& opened = producer_node(graph, mul.inputs[side]);
    if (gated_form(opened.op) != nullptr)
      return {"gate_up", {opened.inputs[0], mul.inputs[1 - side]}};
  }
  return {};
}

bool is_gated(const ir::OpSchema* op) {
  return op == &ir::ops::kSiluMul || op == &ir::ops::kGeluTanhMul || op == &ir::ops::kGeluErfMul;
}

std::vector<Group> find_groups(const ir::Graph& graph) {
  std::vector<Group> groups;
  std::set<ir::ValueId> taken;
  for (const ir::Node& node : graph.nodes()) {
    Group group;
    if (node.op == &ir::ops::kKvAttention) group = qkv_of(graph, node);
    if (node.op == &ir::ops::kMul) group = gate_up_of(graph, node);
    if (is_gated(node.op)) group = {"gate_up", node.inputs};
    const bool linears =
        !group.outputs.empty() && std::all_of(group.outputs.begin(), group.outputs.end(),
                                              [&](ir::ValueId id) { return is_linear(graph, id); });
    // A linear joins once: layers that share a slot name the same k and v again.
    const std::set<ir::ValueId> own(group.outputs.begin(), group.outputs.end());
    const bool fresh =
        std::none_of(own.begin(), own.end(), [&](ir::ValueId id) { return taken.contains(id); });
    if (!linears || !fresh || own.size() != group.outputs.size()) continue;
    taken.insert(own.begin(), own.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

// How many nodes name each weight.
std::map<std::string, int> count_names(const ir::Graph& graph) {
  std::map<std::string, int> counts;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == &ir::ops::kWeight) ++counts[node.attrs.as<ir::WeightAttrs>().name];
  }
  return counts;
}

// "" where the linears can be joined. `named`: of count_names.
std::string why_not(const ir::Graph& graph, const Group& group,
                    const std::map<std::string, int>& named) {
  const ir::Node& first = producer_node(graph, group.outputs[0]);
  for (const ir::ValueId id : group.outputs) {
    const ir::Node& node = producer_node(graph, id);
    if (node.inputs[0] != first.inputs[0]) return "they read different values";
    if (node.inputs.size() != first.inputs.size()) return "only some have a bias";
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const ir::Weight* weight = weight_of(graph, node.inputs[i]);
      if (weight == nullptr || named.at(weight->name) > 1 || !has_one_use(graph, node.inputs[i]))
        return "a weight is computed or has other readers";
      const QuantFormat& wanted = weight_of(graph, first.inputs[i])->storage;
      if (weight->storage != wanted) {
        return fmt::format("weights stored as {} and {} differ", to_string(wanted),
                           to_string(weight->storage));
      }
    }
  }
  return "";
}

// "layers.0.q", … and "qkv" -> "layers.0.qkv"
std::string joined_name(const std::string& part, const char* last) {
  const size_t dot = part.rfind('.');
  return dot == std::string::npos ? last : part.substr(0, dot + 1) + last;
}

// The recipes one below the other, as one tree in order.
ir::Recipe concat(const std::vector<ir::Recipe>& parts) {
  ir::Recipe out;
  ir::RecipeNode root;
  root.op = ir::RecipeOp::kConcatRows;
  for (const ir::Recipe& part : parts) {
    const auto offset = static_cast<int32_t>(out.nodes.size());
    for (ir::RecipeNode node : part.nodes) {
      for (int32_t& input : node.inputs) input += offset;
      out.nodes.push_back(std::move(node));
    }
    root.inputs.push_back(static_cast<int32_t>(out.nodes.size()) - 1);
  }
  out.nodes.push_back(std::move(root));
  return out;
}

// Replaces the weights that input `input` of each linear reads by their concatenation, in the first
// one's place; returns its name, which is like `name`.
std::string join_weights(ir::Graph& graph, const std::vector<ir::Node>& linears, size_t input,
                         const std::string& name) {
  std::vector<ir::Recipe> recipes;
  std::set<std::string> old;
  ir::Weight joined = *weight_of(graph, linears[0].inputs[input]);
  joined.shape[0] = 0;
  for (const ir::Node& linear : linears) {
    const ir::Weight& part = *weight_of(graph, linear.inputs[input]);
    recipes.push_back(part.recipe);
    joined.shape[0] += part.shape[0];
    old.insert(part.name);
  }
  const auto place = graph.weight_index(joined.name);
  joined.name = name;
  for (int i = 1; graph.weight_index(joined.name) >= 0; ++i) joined.name += fmt::format("_{}", i);
  joined.recipe = concat(recipes);
  graph.weights.insert(graph.weights.begin() + place, joined);
  std::erase_if(graph.weights, [&](const ir::Weight& w) { return old.contains(w.name); });
  return joined.name;
}

void join(ir::Graph& graph, const Group& group) {
  std::vector<ir::Node> linears;
  std::vector<size_t> gone;
  ir::SplitAttrs split;
  for (const ir::ValueId id : group.outputs) {
    gone.push_back(graph.producer(id));
    linears.push_back(graph.nodes()[gone.back()]);
    split.sizes.push_back(graph.value(id).type.dims[1].value());
  }
  for (const ir::Node& linear : linears) {
    for (size_t i = 1; i < linear.inputs.size(); ++i)
      gone.push_back(graph.producer(linear.inputs[i]));
  }
  const size_t first = *std::min_element(gone.begin(), gone.begin() + linears.size());
  size_t index = first;
  const std::string value_name = joined_name(graph.value(group.outputs[0]).name, group.name);
  std::vector<ir::ValueId> inputs{linears[0].inputs[0]};
  for (size_t i = 1; i < linears[0].inputs.size(); ++i) {
    const std::string name =
        join_weights(graph, linears, i, value_name + (i == 1 ? ".weight" : ".bias"));
    const Shape shape = graph.weights[static_cast<size_t>(graph.weight_index(name))].shape;
    inputs.push_back(graph.insert(index++, ir::ops::kWeight, {},
                                  ir::Attrs::of(ir::WeightAttrs{name, shape}), name)[0]);
  }
  const std::vector<ir::ValueId> made =
      graph.insert(index++, ir::ops::kLinear, std::move(inputs), {}, value_name);
  const std::vector<ir::ValueId> parts =
      graph.insert(index++, ir::ops::kSplit, made, ir::Attrs::of(split), value_name);
  for (size_t& i : gone) i += i >= first ? index - first : 0;
  std::vector<std::pair<ir::ValueId, ir::ValueId>> exchanged;
  for (size_t i = 0; i < parts.size(); ++i) exchanged.emplace_back(group.outputs[i], parts[i]);
  exchange(graph, exchanged, std::move(gone));
}

}  // namespace

PassReport join_linears(ir::Graph& graph) {
  PassReport report;
  const std::map<std::string, int> named = count_names(graph);
  for (const Group& group : find_groups(graph)) {
    const std::string reason = why_not(graph, group, named);
    if (reason.empty()) {
      join(graph, group);
      ++report.num_changes;
      continue;
    }
    std::vector<std::string> names;
    for (const ir::ValueId id : group.outputs) names.push_back(graph.value(id).name);
    report.notes.push_back(fmt::format("{} not joined: {}", fmt::join(names, ", "), reason));
  }
  return report;
}

}  // namespace kvern::passes
