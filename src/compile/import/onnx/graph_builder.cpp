#include "compile/import/onnx/graph_builder.h"

#include <fmt/format.h>
#include <onnx_messages.pb.h>

#include "compile/import/onnx/refuse.h"

namespace kvern::import::onnx {
namespace {

constexpr uint64_t kValueBytes = 128;
constexpr size_t kMaxWarnings = 100;
constexpr int64_t kMaxOpset = 1 << 20;

std::string key_of(const std::string& domain, const std::string& op, const std::string& overload) {
  return normal_domain(domain) + '\0' + op + '\0' + overload;
}

Opsets read_opsets(const google::protobuf::RepeatedPtrField<onnx_proto::OperatorSetIdProto>& list) {
  Opsets out;
  for (const auto& entry : list) {
    if (entry.version() < 1 || entry.version() > kMaxOpset) {
      fail(fmt::format("domain '{}' is imported as opset {}", shown(entry.domain()),
                       entry.version()));
    }
    const auto [at, fresh] = out.emplace(normal_domain(entry.domain()), entry.version());
    if (!fresh && at->second != entry.version()) {
      fail(fmt::format("domain '{}' is imported as opset {} and as opset {}", shown(at->first),
                       at->second, entry.version()));
    }
  }
  return out;
}

}  // namespace

std::string normal_domain(std::string_view domain) {
  return domain == "ai.onnx" ? "" : std::string(domain);
}

ModelContext::ModelContext(const onnx_proto::ModelProto& model, TensorReader& tensor_reader,
                           std::vector<std::string>& warnings)
    : opsets(read_opsets(model.opset_import())), tensors(tensor_reader), warnings_(warnings) {
  for (const auto& function : model.functions()) {
    const std::string key = key_of(function.domain(), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second) {
      fail(fmt::format("function '{}' of domain '{}' is defined twice", shown(function.name()),
                       shown(function.domain())));
    }
  }
}

const onnx_proto::FunctionProto* ModelContext::function_of(
    const onnx_proto::NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

Opsets ModelContext::opsets_of(const onnx_proto::FunctionProto& function) const {
  Opsets out = read_opsets(function.opset_import());
  out.insert(opsets.begin(), opsets.end());
  return out;
}

int64_t ModelContext::opset(const Opsets& imported, const std::string& domain) {
  const auto found = imported.find(domain);
  if (found != imported.end()) return found->second;
  if (warnings_.size() < kMaxWarnings && warned_.insert(domain).second) {
    warnings_.push_back(
        fmt::format("onnx: the file does not say which opset of domain '{}' it uses; opset 1 is "
                    "assumed",
                    domain.empty() ? "ai.onnx" : shown(domain)));
  }
  return 1;
}

ir::TensorValueId GraphBuilder::new_value(const std::string& name) {
  std::string unique = name;
  const auto [at, fresh] = taken_->emplace(name, 1);
  if (!fresh) {
    int64_t& suffix = at->second;  // stays valid when others are added
    do {
      unique = fmt::format("{}_{}", name, suffix++);
    } while (!taken_->emplace(unique, 1).second);
  }
  context_.tensors.budget().charge(kValueBytes + 2 * unique.size());
  return graph_.add_value(std::move(unique));
}

ir::TensorValueId GraphBuilder::declare(const std::string& name, const char* as_what) {
  const auto [at, fresh] = names_.emplace(name, ir::kNoValue);
  if (!fresh) {
    fail(
        fmt::format("the name '{}' is given twice: {} makes it, and something before does too; "
                    "names must be unique",
                    shown(name), as_what));
  }
  return at->second = new_value(prefix_ + name);
}

void GraphBuilder::declare_outputs(const onnx_proto::NodeProto& node) {
  for (const std::string& name : node.output()) {
    if (!name.empty()) declare(name, who_is(node).c_str());
  }
}

std::optional<ir::TensorValueId> GraphBuilder::find(const std::string& name) {
  const auto own = names_.find(name);
  if (own != names_.end()) return own->second;
  if (outer_ == nullptr) return std::nullopt;
  const auto outer = outer_->find(name);
  if (!outer || *outer == ir::kNoValue) return outer;
  const ir::TensorValueId id = new_value(outer_->graph_.name_of(*outer));
  names_.emplace(name, id);
  graph_.captures.emplace_back(*outer, id);
  return id;
}

ir::TensorValueId GraphBuilder::read_name(const std::string& name, const std::string& who) {
  if (name.empty()) return ir::kNoValue;
  const auto id = find(name);
  if (!id) {
    fail(fmt::format("{} reads '{}', which no node, input or initializer makes", who, shown(name)));
  }
  return *id;
}

void GraphBuilder::describe(const onnx_proto::ValueInfoProto& info, ir::TensorValueId id) {
  ir::TensorValue& value = graph_.values[static_cast<size_t>(id)];
  if (!info.type().has_tensor_type() || value.type != ir::ElementType::kUndefined) return;
  const auto& type = info.type().tensor_type();
  if (type.elem_type() > 0 &&
      type.elem_type() <= static_cast<int32_t>(ir::ElementType::kFloat4E2M1)) {
    value.type = static_cast<ir::ElementType>(type.elem_type());
  }
  value.has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    context_.tensors.budget().charge(sizeof(ir::TensorDim) + dim.dim_param().size());
    const bool constant = dim.has_dim_value() && dim.dim_value() >= 0;
    value.dims.push_back({constant ? dim.dim_value() : -1, constant ? "" : dim.dim_param()});
  }
}

void GraphBuilder::read_inputs(const onnx_proto::GraphProto& graph) {
  for (const auto& sparse : graph.sparse_initializer()) {
    unsupported(fmt::format("initializer '{}' is sparse; save it as a dense tensor",
                            shown(sparse.values().name())));
  }
  for (const auto& tensor : graph.initializer()) {
    if (tensor.name().empty()) fail("an initializer has no name");
    const ir::TensorValueId id = declare(tensor.name(), "an initializer");
    graph_.constants.emplace(id, context_.tensors.read(tensor, tensor.name()));
  }
  std::unordered_set<std::string> seen;
  for (const auto& info : graph.input()) {
    if (info.name().empty()) fail("an input of the graph has no name");
    if (!seen.insert(info.name()).second) {
      fail(fmt::format("input '{}' is listed twice", shown(info.name())));
    }
    // IR versions below 4 list initializers among the inputs.
    const auto initializer = names_.find(info.name());
    if (initializer != names_.end()) continue;
    const ir::TensorValueId id = declare(info.name(), "an input of the graph");
    describe(info, id);
    graph_.inputs.push_back(id);
  }
}

void GraphBuilder::read_graph(const onnx_proto::GraphProto& graph) {
  read_inputs(graph);
  for (const auto& node : graph.node()) declare_outputs(node);
  for (const auto& node : graph.node()) read_node(node);
  std::unordered_set<std::string> seen;
  for (const auto& info : graph.output()) {
    if (outer_ == nullptr && !seen.insert(info.name()).second) {
      fail(fmt::format("output '{}' is listed twice", shown(info.name())));
    }
    const ir::TensorValueId id = read_name(info.name(), "the list of the graph's outputs");
    if (id == ir::kNoValue) fail("an output of the graph has no name");
    describe(info, id);
    graph_.outputs.push_back(id);
  }
  sort_nodes(graph_);
}

}  // namespace kvern::import::onnx
