// The invariants of a graph. Each is checked after every pass; a broken one is our bug.
#include <fmt/format.h>

#include <optional>
#include <set>

#include "base/check.h"
#include "compile/ir/graph.h"
#include "compile/ir/ops.h"

namespace kvern::ir {
namespace {

[[noreturn]] void broken(std::string_view where, const std::string& what) {
  throw InternalError(fmt::format("verify: {}: {}", where, what));
}

std::optional<int64_t> slot_of(const Node& node) {
  for (const NamedField& field : node.attrs.fields()) {
    if (field.name == "slot") return std::get<int64_t>(field.value);
  }
  return std::nullopt;
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), producers_(graph.num_values(), nullptr) {}

  void run() {
    check_weights();
    for (const Node& node : graph_.nodes()) check_node(node);
  }

 private:
  // "linear -> %q"
  std::string describe(const Node& node) const {
    std::string text = node.op == nullptr ? "node without an op" : node.op->name;
    for (const ValueId id : node.outputs) {
      if (in_range(id)) text += fmt::format(" -> %{}", graph_.value(id).name);
    }
    return text;
  }
  bool in_range(ValueId id) const {
    return id.valid() && static_cast<size_t>(id.value) < producers_.size();
  }

  void check_weights() {
    for (const Weight& weight : graph_.weights) {
      const std::string where = fmt::format("weight '{}'", weight.name);
      if (!weights_.insert(weight.name).second) broken(where, "is there twice");
      Shape made;
      try {
        made = recipe_shape(weight.recipe, graph_.sources, weight.shape);
      } catch (const Error& error) {
        broken(where, error.what());
      }
      if (made != weight.shape) {
        broken(where,
               fmt::format("is {}, its recipe makes {}", to_string(weight.shape), to_string(made)));
      }
    }
  }

  void check_node(const Node& node) {
    const std::string where = describe(node);
    if (node.op == nullptr) broken(where, "every node has an op");
    check_inputs(node, where);
    check_types(node, where);
    check_names(node, where);
    for (const ValueId id : node.outputs) {
      if (producers_[static_cast<size_t>(id.value)] != nullptr) {
        broken(where, fmt::format("%{} is defined twice", graph_.value(id).name));
      }
      producers_[static_cast<size_t>(id.value)] = &node;
      if (!names_.insert(graph_.value(id).name).second) {
        broken(where, fmt::format("two values are called %{}", graph_.value(id).name));
      }
      if (!graph_.value(id).type.is_kv()) continue;
      if (!slots_.insert(slot_of(node).value_or(-1)).second) {
        broken(where, fmt::format("slot {} is written twice", slot_of(node).value_or(-1)));
      }
    }
  }

  void check_inputs(const Node& node, const std::string& where) {
    for (const ValueId id : node.inputs) {
      if (!in_range(id)) broken(where, fmt::format("reads value {}, which is not there", id.value));
      const Value& value = graph_.value(id);
      const Node* producer = producers_[static_cast<size_t>(id.value)];
      if (producer == nullptr) broken(where, fmt::format("%{} is used undefined", value.name));
      if (!value.type.is_kv()) continue;
      if (!node.op->has_state)
        broken(where, fmt::format("!kv %{} in an op without state", value.name));
      if (slot_of(node) != slot_of(*producer)) {
        broken(where, fmt::format("%{} belongs to slot {}, not {}", value.name,
                                  slot_of(*producer).value_or(-1), slot_of(node).value_or(-1)));
      }
    }
  }

  void check_types(const Node& node, const std::string& where) {
    std::vector<Type> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(graph_.value(id).type);
    const auto count = static_cast<int>(inputs.size());
    if (count < node.op->min_inputs || count > node.op->max_inputs) {
      broken(where, fmt::format("has {} inputs", count));
    }
    std::vector<Type> wanted;
    try {
      wanted = node.op->infer(inputs, node.attrs);
    } catch (const Error& error) {
      broken(where, error.what());
    }
    if (wanted.size() != node.outputs.size()) {
      broken(where, fmt::format("has {} outputs, {} inferred", node.outputs.size(), wanted.size()));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!in_range(node.outputs[i])) broken(where, "makes a value that is not there");
      const Value& value = graph_.value(node.outputs[i]);
      if (value.type != wanted[i]) {
        broken(where, fmt::format("%{} is {}, inferred {}", value.name, to_string(value.type),
                                  to_string(wanted[i])));
      }
    }
  }

  // Weights exist with the shape given; inputs and outputs of the graph have names of their own.
  void check_names(const Node& node, const std::string& where) {
    if (node.op == &ops::kWeight) {
      const auto& attrs = node.attrs.as<WeightAttrs>();
      const int index = graph_.weight_index(attrs.name);
      if (index < 0) broken(where, fmt::format("there is no weight '{}'", attrs.name));
      const Shape& shape = graph_.weights[static_cast<size_t>(index)].shape;
      if (shape != attrs.shape) {
        broken(where, fmt::format("weight '{}' is {}, not {}", attrs.name, to_string(shape),
                                  to_string(attrs.shape)));
      }
    } else if (node.op == &ops::kInput) {
      const std::string& name = node.attrs.as<InputAttrs>().name;
      if (!inputs_.insert(name).second) broken(where, fmt::format("two inputs '{}'", name));
    } else if (node.op == &ops::kOutput) {
      const std::string& name = node.attrs.as<OutputAttrs>().name;
      if (!outputs_.insert(name).second) broken(where, fmt::format("two outputs '{}'", name));
    }
  }

  const Graph& graph_;
  std::vector<const Node*> producers_;  // by value; nullptr until the node was passed
  std::set<std::string> weights_, inputs_, outputs_, names_;
  std::set<int64_t> slots_;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace kvern::ir
