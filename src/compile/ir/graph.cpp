#include "compile/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace kvern::ir {
namespace {

std::vector<Type> infer_outputs(const OpSchema& op, const std::vector<Type>& inputs,
                                const Attrs& attrs) {
  const int count = static_cast<int>(inputs.size());
  if (count < op.min_inputs || count > op.max_inputs) {
    throw Error(Code::kInvalidModel,
                fmt::format("takes {} to {} inputs, got {}", op.min_inputs, op.max_inputs, count));
  }
  return op.infer(inputs, attrs);
}

// The index below `count` that is right, sought from `start` outwards: nodes and weights move
// little between two looks.
template <class Right>
std::optional<size_t> nearest(size_t start, size_t count, const Right& right) {
  for (size_t away = 0; away <= std::max(start, count); ++away) {
    if (away <= start && start - away < count && right(start - away)) return start - away;
    if (away > 0 && start + away < count && right(start + away)) return start + away;
  }
  return std::nullopt;
}

}  // namespace

// `name` by value: callers pass the name of another value, and values_ moves while it grows.
std::vector<ValueId> Graph::make_outputs(Node& node, std::string name) {
  std::vector<Type> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(value(id).type);
  std::vector<Type> types;
  try {
    types = infer_outputs(*node.op, inputs, node.attrs);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    const std::string& shown = node.source_name.empty() ? name : node.source_name;
    throw Error(error.code(), fmt::format("{} '{}': {}", node.op->name, shown, error.what()));
  }
  std::vector<ValueId> ids;
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId id(static_cast<int32_t>(values_.size()));
    const std::string unique =
        unique_name(types.size() == 1 ? name : fmt::format("{}.{}", name, i));
    values_.push_back({unique, std::move(types[i])});
    names_.emplace(unique, id.value);
    ids.push_back(id);
  }
  return ids;
}

std::vector<ValueId> Graph::add(const OpSchema& op, std::vector<ValueId> inputs, Attrs attrs,
                                const std::string& name, const std::string& source_name) {
  if (attrs.empty()) attrs = op.default_attrs();
  KVERN_CHECK(attrs.same_struct(op.default_attrs()), "{}: attributes of another op", op.name);
  Node node{&op, std::move(inputs), {}, std::move(attrs), source_name};
  node.outputs = make_outputs(node, name);
  producers_.resize(values_.size(), nodes_.size());
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::vector<ValueId> Graph::insert(size_t index, const OpSchema& op, std::vector<ValueId> inputs,
                                   Attrs attrs, const std::string& name) {
  KVERN_CHECK(index <= nodes_.size(), "insert at {} of {} nodes", index, nodes_.size());
  std::vector<ValueId> outputs = add(op, std::move(inputs), std::move(attrs), name);
  std::rotate(nodes_.begin() + static_cast<ptrdiff_t>(index), nodes_.end() - 1, nodes_.end());
  for (const ValueId id : outputs) producers_[static_cast<size_t>(id.value)] = index;
  return outputs;
}

ValueId Graph::add1(const OpSchema& op, std::vector<ValueId> inputs, Attrs attrs,
                    const std::string& name) {
  const std::vector<ValueId> outputs = add(op, std::move(inputs), std::move(attrs), name);
  KVERN_CHECK(outputs.size() == 1, "{} has {} outputs", op.name, outputs.size());
  return outputs[0];
}

const Value& Graph::value(ValueId id) const {
  KVERN_CHECK(id.valid() && static_cast<size_t>(id.value) < values_.size(), "no value {}",
              id.value);
  return values_[static_cast<size_t>(id.value)];
}

size_t Graph::producer(ValueId id) const {
  KVERN_CHECK(id.valid() && static_cast<size_t>(id.value) < values_.size(), "no value {}",
              id.value);
  producers_.resize(values_.size(), 0);
  size_t& last = producers_[static_cast<size_t>(id.value)];
  const auto index = nearest(last, nodes_.size(), [&](size_t i) {
    const auto& outputs = nodes_[i].outputs;
    return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
  });
  KVERN_CHECK(index.has_value(), "value %{} has no producer", value(id).name);
  return last = *index;
}

std::vector<size_t> Graph::users(ValueId id) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto& inputs = nodes_[i].inputs;
    if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) out.push_back(i);
  }
  return out;
}

void Graph::replace_all_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
}

void Graph::erase(std::vector<size_t> node_indices) {
  std::vector<bool> gone(nodes_.size(), false);
  for (const size_t i : node_indices) {
    KVERN_CHECK(i < nodes_.size(), "erase of node {} of {}", i, nodes_.size());
    gone[i] = true;
  }
  std::vector<Node> kept;
  std::vector<bool> read(values_.size(), false);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (gone[i]) continue;
    for (const ValueId id : nodes_[i].inputs) read[static_cast<size_t>(id.value)] = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!gone[i]) {
      kept.push_back(std::move(nodes_[i]));
      continue;
    }
    for (const ValueId id : nodes_[i].outputs) {
      KVERN_CHECK(!read[static_cast<size_t>(id.value)], "erased value %{} is still read",
                  value(id).name);
      names_.erase(value(id).name);  // the name is free again
    }
  }
  nodes_ = std::move(kept);
}

std::string Graph::unique_name(const std::string& hint) const {
  if (!names_.contains(hint)) return hint;
  for (int i = 1;; ++i) {
    std::string name = fmt::format("{}_{}", hint, i);
    if (!names_.contains(name)) return name;
  }
}

void Graph::rename(ValueId id, const std::string& name) {
  const std::string old = value(id).name;
  if (old == name) return;
  KVERN_CHECK(!names_.contains(name), "the name %{} is taken", name);
  names_.erase(old);
  names_.emplace(name, id.value);
  values_[static_cast<size_t>(id.value)].name = name;
}

int Graph::weight_index(const std::string& name) const {
  const auto [place, is_new] = weight_places_.try_emplace(name, 0);
  const auto index =
      nearest(place->second, weights.size(), [&](size_t i) { return weights[i].name == name; });
  if (!index) {
    weight_places_.erase(place);
    return -1;
  }
  place->second = *index;
  return static_cast<int>(*index);
}

}  // namespace kvern::ir
