#include "compile/ir/tensor_graph.h"

#include <fmt/format.h>

#include "kvern/error.h"

namespace kvern::ir {
namespace {

// The attribute as a T; nullptr when absent.
template <class T>
const T* find_attr(const TensorNode& node, std::string_view attr, const char* kind) {
  const auto found = node.attrs.find(std::string(attr));
  if (found == node.attrs.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    throw Error(Code::kInvalidModel,
                fmt::format("onnx: {}: attribute '{}' must be {}", node.who(), attr, kind));
  }
  return value;
}

}  // namespace

int64_t TensorNode::i(std::string_view attr, int64_t otherwise) const {
  const auto* value = find_attr<int64_t>(*this, attr, "an integer");
  return value == nullptr ? otherwise : *value;
}

double TensorNode::f(std::string_view attr, double otherwise) const {
  const auto* value = find_attr<double>(*this, attr, "a float");
  return value == nullptr ? otherwise : *value;
}

std::string TensorNode::s(std::string_view attr, std::string otherwise) const {
  const auto* value = find_attr<std::string>(*this, attr, "a string");
  return value == nullptr ? std::move(otherwise) : *value;
}

std::vector<int64_t> TensorNode::ints(std::string_view attr, std::vector<int64_t> otherwise) const {
  const auto* value = find_attr<std::vector<int64_t>>(*this, attr, "a list of integers");
  return value == nullptr ? std::move(otherwise) : *value;
}

std::vector<double> TensorNode::floats(std::string_view attr, std::vector<double> otherwise) const {
  const auto* value = find_attr<std::vector<double>>(*this, attr, "a list of floats");
  return value == nullptr ? std::move(otherwise) : *value;
}

const Array* TensorNode::tensor(std::string_view attr) const {
  return find_attr<Array>(*this, attr, "a tensor");
}

std::shared_ptr<const TensorGraph> TensorNode::graph(std::string_view attr) const {
  const auto* value = find_attr<std::shared_ptr<const TensorGraph>>(*this, attr, "a graph");
  return value == nullptr ? nullptr : *value;
}

std::string TensorNode::who() const {
  return fmt::format("node '{}' ({}{}{}, opset {})", name, domain, domain.empty() ? "" : ".", op,
                     opset);
}

TensorValueId TensorGraph::add_value(std::string name) {
  TensorValue value;
  value.name = std::move(name);
  values.push_back(std::move(value));
  return static_cast<TensorValueId>(values.size()) - 1;
}

TensorValueId TensorGraph::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == name) return static_cast<TensorValueId>(i);
  }
  return kNoValue;
}

void verify(const TensorGraph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  const auto check_id = [&](TensorValueId id) {
    if (id < 0 || static_cast<size_t>(id) >= made.size()) {
      throw Error(Code::kInvalidModel, fmt::format("tensor graph: there is no value {}", id));
    }
  };
  const auto make = [&](TensorValueId id) {
    check_id(id);
    if (made[static_cast<size_t>(id)]) {
      throw Error(Code::kInvalidModel,
                  fmt::format("onnx: value '{}' is made twice", graph.name_of(id)));
    }
    made[static_cast<size_t>(id)] = true;
  };
  const auto read = [&](TensorValueId id, const std::string& who) {
    check_id(id);
    if (!made[static_cast<size_t>(id)]) {
      throw Error(Code::kInvalidModel,
                  fmt::format("onnx: {} reads '{}', which nothing before it makes", who,
                              graph.name_of(id)));
    }
  };
  for (const auto& [outer, own] : graph.captures) make(own);
  for (const TensorValueId id : graph.inputs) make(id);
  for (const auto& [id, array] : graph.constants) make(id);
  for (const TensorNode& node : graph.nodes) {
    for (const TensorValueId id : node.inputs) {
      if (id != kNoValue) read(id, node.who());
    }
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const TensorGraph>>(&attr);
      if (body == nullptr) continue;
      for (const auto& [outer, own] : (*body)->captures) read(outer, node.who());
      verify(**body);
    }
    for (const TensorValueId id : node.outputs) {
      if (id != kNoValue) make(id);
    }
  }
  for (const TensorValueId id : graph.outputs) read(id, "the list of outputs");
}

}  // namespace kvern::ir
