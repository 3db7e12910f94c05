#include "compile/eval/eval.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"

namespace kvern::eval {
namespace {

using NamedTensors = std::map<std::string, HostTensor>;

[[noreturn]] void no_evaluation(const ir::Node& node) {
  throw Error(Code::kUnsupported, fmt::format("eval: op '{}' has no evaluation", node.op->name));
}

class Evaluation {
 public:
  Evaluation(const ir::Graph& graph, const NamedTensors& inputs, WeightProvider& weights,
             KvState& kv)
      : graph_(graph), inputs_(inputs), weights_(weights), kv_(kv), values_(graph.num_values()) {}

  NamedTensors run() {
    std::vector<size_t> last_use(values_.size(), 0);
    const std::vector<ir::Node>& nodes = graph_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const ir::ValueId id : nodes[i].inputs) last_use[static_cast<size_t>(id.value)] = i;
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::vector<HostTensor> made = run_one(nodes[i]);
      for (size_t o = 0; o < made.size(); ++o) {
        values_[static_cast<size_t>(nodes[i].outputs[o].value)] = std::move(made[o]);
      }
      for (const ir::ValueId id : nodes[i].inputs) {  // weights of a real model must not pile up
        if (last_use[static_cast<size_t>(id.value)] == i)
          values_[static_cast<size_t>(id.value)] = {};
      }
    }
    return std::move(outputs_);
  }

 private:
  std::vector<HostTensor> run_one(const ir::Node& node) {
    if (node.op == &ir::ops::kInput) return {take_input(node)};
    if (node.op == &ir::ops::kWeight) return {load_weight(node)};
    std::vector<const HostTensor*> in;
    for (const ir::ValueId id : node.inputs) in.push_back(&values_[static_cast<size_t>(id.value)]);
    if (node.op == &ir::ops::kOutput) {
      outputs_[node.attrs.as<ir::OutputAttrs>().name] = *in[0];
      return {};
    }
    if (const StateFn run = find_state_eval(node.op)) return run(node, in, kv_);
    if (const EvalFn run = find_eval(node.op)) return run(node, in);
    no_evaluation(node);
  }

  HostTensor load_weight(const ir::Node& node) {
    const int index = graph_.weight_index(node.attrs.as<ir::WeightAttrs>().name);
    KVERN_CHECK(index >= 0, "no weight '{}'", node.attrs.as<ir::WeightAttrs>().name);
    const ir::Weight& weight = graph_.weights[static_cast<size_t>(index)];
    HostTensor value = weights_.load(graph_, weight);
    KVERN_CHECK(value.shape == weight.shape, "weight '{}': provider gave {}", weight.name,
                to_string(value.shape));
    return value;
  }

  HostTensor take_input(const ir::Node& node) {
    const std::string& name = node.attrs.as<ir::InputAttrs>().name;
    const auto found = inputs_.find(name);
    if (found == inputs_.end()) {
      throw Error(Code::kInvalidArgument, fmt::format("eval: input '{}' is missing", name));
    }
    check_input(name, graph_.value(node.outputs[0]).type, found->second);
    return found->second;
  }

  // Dims of one symbol must agree among the inputs.
  void check_input(const std::string& name, const ir::Type& type, const HostTensor& tensor) {
    bool fits = tensor.shape.size() == type.dims.size();
    for (size_t i = 0; fits && i < tensor.shape.size(); ++i) {
      const ir::Dim& dim = type.dims[i];
      if (dim.is_constant())
        fits = dim.value() == tensor.shape[i];
      else
        fits = symbols_.emplace(dim.symbol(), tensor.shape[i]).first->second == tensor.shape[i];
    }
    const size_t held = type.dtype == DType::kF32 ? tensor.f32.size() : tensor.i32.size();
    if (!fits || held != static_cast<size_t>(num_elements(tensor.shape))) {
      throw Error(Code::kInvalidArgument,
                  fmt::format("eval: input '{}' must be {}, got shape {} and {} values", name,
                              ir::to_string(type), to_string(tensor.shape), held));
    }
  }

  const ir::Graph& graph_;
  const NamedTensors& inputs_;
  WeightProvider& weights_;
  KvState& kv_;
  std::vector<HostTensor> values_;
  std::map<std::string, int64_t> symbols_;
  NamedTensors outputs_;
};

}  // namespace

std::map<std::string, HostTensor> run(const ir::Graph& graph,
                                      const std::map<std::string, HostTensor>& inputs,
                                      WeightProvider& weights, KvState& kv) {
  return Evaluation(graph, inputs, weights, kv).run();
}

std::vector<HostTensor> run_node(const ir::Node& node, const std::vector<HostTensor>& inputs) {
  const EvalFn run = find_eval(node.op);
  if (run == nullptr) no_evaluation(node);
  std::vector<const HostTensor*> in;
  for (const HostTensor& input : inputs) in.push_back(&input);
  return run(node, in);
}

}  // namespace kvern::eval
