// NodeProto as a TensorNode, its attributes, and Constant nodes.
#include <fmt/format.h>
#include <onnx_messages.pb.h>

#include "compile/import/onnx/graph_builder.h"
#include "compile/import/onnx/refuse.h"

namespace kvern::import::onnx {
namespace {

using onnx_proto::AttributeProto;

// AttributeProto.AttributeType
enum AttrType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
};
constexpr const char* kTypeNames[] = {
    "undefined", "a float",         "an integer",     "a string", "a tensor",
    "a graph",   "floats",          "integers",       "strings",  "a list of tensors",
    "graphs",    "a sparse tensor", "sparse tensors", "a type",   "types"};

const char* type_name(int32_t type) {
  const auto index = static_cast<size_t>(type);
  return index < std::size(kTypeNames) ? kTypeNames[index] : "of an unknown kind";
}

// The kind of the value that is there; kUndefined for none.
int32_t held_type(const AttributeProto& attr) {
  if (attr.has_t()) return kTensor;
  if (attr.has_g()) return kGraph;
  if (attr.floats_size() > 0) return kFloats;
  if (attr.ints_size() > 0) return kInts;
  if (attr.strings_size() > 0) return kStrings;
  if (attr.has_s()) return kString;
  if (attr.has_f()) return kFloat;
  if (attr.has_i()) return kInt;
  return kUndefined;
}

// Some writers store a default value in every field; only one that holds something else
// contradicts.
bool contradicts(const AttributeProto& attr, int32_t type) {
  const int32_t held = held_type(attr);
  if (held == kUndefined || held == type) return false;
  switch (held) {
    case kFloat:
      return attr.f() != 0.0F;
    case kInt:
      return attr.i() != 0;
    case kString:
      return !attr.s().empty();
    default:
      return true;
  }
}

}  // namespace

std::string who_is(const onnx_proto::NodeProto& node) {
  return fmt::format("node '{}' ({}{}{})", shown(node.name()), shown(node.domain()),
                     node.domain().empty() ? "" : ".", shown(node.op_type()));
}

ir::TensorAttr GraphBuilder::read_attribute(const AttributeProto& attr, const std::string& who) {
  const auto whose = [&] { return fmt::format("{}: attribute '{}'", who, shown(attr.name())); };
  Budget& budget = context_.tensors.budget();
  const int32_t type = attr.type() == kUndefined ? held_type(attr) : attr.type();
  if (contradicts(attr, type)) {
    fail(fmt::format("{} is said to be {} and holds {}", whose(), type_name(type),
                     type_name(held_type(attr))));
  }
  switch (type) {
    case kFloat:
      return double{attr.f()};
    case kInt:
      return attr.i();
    case kString:
      budget.charge(attr.s().size());
      return attr.s();
    case kTensor:
      if (!attr.has_t()) fail(fmt::format("{} holds no tensor", whose()));
      return context_.tensors.read(attr.t(), attr.name());
    case kGraph: {
      if (!attr.has_g()) fail(fmt::format("{} holds no graph", whose()));
      auto body = std::make_shared<ir::TensorGraph>();
      budget.charge(sizeof(ir::TensorGraph) + sizeof(GraphBuilder));
      GraphBuilder(context_, *body, this, opsets_, bound_).read_graph(attr.g());
      return std::shared_ptr<const ir::TensorGraph>(std::move(body));
    }
    case kFloats:
      budget.charge(static_cast<uint64_t>(attr.floats_size()) * sizeof(double));
      return std::vector<double>(attr.floats().begin(), attr.floats().end());
    case kInts:
      budget.charge(static_cast<uint64_t>(attr.ints_size()) * sizeof(int64_t));
      return std::vector<int64_t>(attr.ints().begin(), attr.ints().end());
    case kStrings:
      for (const std::string& text : attr.strings()) budget.charge(sizeof(text) + text.size());
      return std::vector<std::string>(attr.strings().begin(), attr.strings().end());
    case kUndefined:
      fail(fmt::format("{} holds nothing", whose()));
    default:
      unsupported(fmt::format("{} is {} (attribute type {}), which is not supported", whose(),
                              type_name(type), type));
  }
}

Attributes GraphBuilder::read_attributes(const onnx_proto::NodeProto& node) {
  Attributes out;
  const std::string who = who_is(node);
  for (const AttributeProto& attr : node.attribute()) {
    context_.tensors.budget().charge(sizeof(ir::TensorAttr) + 64 + attr.name().size());
    if (out.contains(attr.name())) {
      fail(fmt::format("{}: attribute '{}' is given twice", who, shown(attr.name())));
    }
    if (attr.ref_attr_name().empty()) {
      out.emplace(attr.name(), read_attribute(attr, who));
      continue;
    }
    if (bound_ == nullptr) {
      fail(fmt::format("{}: attribute '{}' refers to attribute '{}' of a function, outside of any",
                       who, shown(attr.name()), shown(attr.ref_attr_name())));
    }
    const auto value = bound_->find(attr.ref_attr_name());
    if (value == bound_->end()) continue;  // the call leaves it out, so this node does too
    if (std::holds_alternative<std::shared_ptr<const ir::TensorGraph>>(value->second)) {
      unsupported(fmt::format("{}: attribute '{}' is a graph that the function was called with",
                              who, shown(attr.name())));
    }
    out.emplace(attr.name(), value->second);
  }
  return out;
}

void GraphBuilder::add_constant(const onnx_proto::NodeProto& node) {
  const std::string who = who_is(node);
  if (node.output_size() != 1 || node.output(0).empty() || node.attribute_size() != 1) {
    fail(fmt::format("{} must have one output and one attribute, it has {} and {}", who,
                     node.output_size(), node.attribute_size()));
  }
  const ir::TensorValueId id = names_.at(node.output(0));
  const Attributes attrs = read_attributes(node);
  if (attrs.empty()) fail(fmt::format("{} refers to an attribute that the call leaves out", who));
  const auto& [name, attr] = *attrs.begin();
  ir::Array array;
  if (const auto* tensor = std::get_if<ir::Array>(&attr); tensor != nullptr && name == "value") {
    array = *tensor;
  } else if (const auto* f = std::get_if<double>(&attr); f != nullptr && name == "value_float") {
    array = ir::Array::scalar_f32(static_cast<float>(*f));
  } else if (const auto* i = std::get_if<int64_t>(&attr); i != nullptr && name == "value_int") {
    array = ir::Array::scalar_i64(*i);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr);
             ints != nullptr && name == "value_ints") {
    array = ir::Array::vector_i64(*ints);
  } else if (const auto* floats = std::get_if<std::vector<double>>(&attr);
             floats != nullptr && name == "value_floats") {
    const std::vector<float> values(floats->begin(), floats->end());
    array = ir::Array::of<float>(ir::ElementType::kFloat, {static_cast<int64_t>(values.size())},
                                 values);
  } else {
    unsupported(fmt::format("{} has attribute '{}'; numbers and dense tensors are supported", who,
                            shown(name)));
  }
  graph_.constants.emplace(id, std::move(array));
}

void GraphBuilder::add_node(const onnx_proto::NodeProto& node) {
  ir::TensorNode out;
  out.domain = normal_domain(node.domain());
  out.op = node.op_type();
  out.opset = context_.opset(opsets_, out.domain);
  out.name = prefix_ + shown(node.name());
  context_.tensors.budget().charge_node();
  context_.tensors.budget().charge(out.domain.size() + out.op.size() + out.name.size() +
                                   4 * static_cast<uint64_t>(node.input_size()));
  const std::string who = who_is(node);
  for (const std::string& name : node.input()) out.inputs.push_back(read_name(name, who));
  for (const std::string& name : node.output()) {
    out.outputs.push_back(name.empty() ? ir::kNoValue : names_.at(name));
  }
  out.attrs = read_attributes(node);
  graph_.nodes.push_back(std::move(out));
}

void GraphBuilder::read_node(const onnx_proto::NodeProto& node) {
  if (node.op_type().empty()) fail(fmt::format("{} has no op", who_is(node)));
  if (const auto* function = context_.function_of(node)) return inline_call(node, *function);
  if (node.op_type() == "Constant" && normal_domain(node.domain()).empty()) {
    return add_constant(node);
  }
  add_node(node);
}

}  // namespace kvern::import::onnx
