// Runs a whole graph: nodes in order, values dropped after their last reader, bodies of If and Loop
// with what they capture.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compile/eval/tensor/node_guard.h"
#include "compile/eval/tensor/tensor_eval.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

constexpr int kMaxBodyDepth = 64;
// Trips of all loops of a run, as a multiple of what one loop may have.
constexpr int64_t kLoopsPerRun = 8;

std::string declared(const ir::TensorValue& value) {
  std::string dims;
  for (const ir::TensorDim& dim : value.dims) {
    dims += dims.empty() ? "" : ", ";
    dims += dim.value >= 0 ? std::to_string(dim.value) : dim.name.empty() ? "?" : dim.name;
  }
  return fmt::format("{}{}", ir::element_type_name(value.type),
                     value.has_shape ? fmt::format("[{}]", dims) : "");
}

void check_input(const ir::TensorValue& value, const Array& array) {
  bool fits = value.type == ElementType::kUndefined || value.type == array.type();
  if (value.has_shape) {
    fits = fits && value.dims.size() == array.shape().size();
    for (size_t d = 0; fits && d < value.dims.size(); ++d) {
      fits = value.dims[d].value < 0 || value.dims[d].value == array.shape()[d];
    }
  }
  if (!fits) {
    throw Error(Code::kInvalidArgument,
                fmt::format("input '{}' must be {}, got {}{}", value.name, declared(value),
                            ir::element_type_name(array.type()), to_string(array.shape())));
  }
}

// What one run shares with the bodies in it.
struct Budget {
  const TensorRunOptions& options;
  int64_t trips = 0;  // of all loops together, those within loops too
  int depth = 0;
};

// One graph or body while it runs.
class Frame {
 public:
  Frame(const TensorGraph& graph, Budget& budget)
      : graph_(graph), budget_(budget), values_(graph.values.size()) {
    ++budget_.depth;
    if (budget_.depth > kMaxBodyDepth) {
      throw Error(Code::kUnsupported,
                  fmt::format("onnx: bodies are nested more than {} deep", kMaxBodyDepth));
    }
    for (const auto& [id, array] : graph.constants) value(id) = array;
  }
  ~Frame() { --budget_.depth; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  std::optional<Array>& value(ir::TensorValueId id) { return values_[static_cast<size_t>(id)]; }

  void capture(Frame& outer) {
    for (const auto& [theirs, own] : graph_.captures) value(own) = outer.value(theirs);
  }

  // `kept`: values that stay alive besides the outputs.
  void run(std::span<const ir::TensorValueId> kept) {
    const std::vector<size_t> last = last_readers(kept);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const TensorNode& node = graph_.nodes[n];
      run_node(node, last, n);
      drop_after(node, last, n);
    }
  }

  const Array& result(ir::TensorValueId id) {
    const std::optional<Array>& made = value(id);
    if (!made) {
      throw Error(Code::kInvalidModel,
                  fmt::format("onnx: nothing makes the value '{}'", graph_.name_of(id)));
    }
    return *made;
  }

 private:
  template <class Fn>
  static void each_read(const TensorNode& node, Fn fn) {
    for (const ir::TensorValueId id : node.inputs) {
      if (id != ir::kNoValue) fn(id);
    }
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const TensorGraph>>(&attr);
      if (body == nullptr) continue;
      for (const auto& [outer, own] : (*body)->captures) fn(outer);
    }
  }

  // The node after which each value may go; the number of nodes: never.
  std::vector<size_t> last_readers(std::span<const ir::TensorValueId> kept) const {
    std::vector<size_t> last(values_.size(), 0);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      each_read(graph_.nodes[n], [&](ir::TensorValueId id) { last[static_cast<size_t>(id)] = n; });
    }
    const size_t never = graph_.nodes.size();
    for (const ir::TensorValueId id : graph_.outputs) last[static_cast<size_t>(id)] = never;
    for (const ir::TensorValueId id : kept) last[static_cast<size_t>(id)] = never;
    return last;
  }

  void run_node(const TensorNode& node, const std::vector<size_t>& last, size_t n) {
    std::vector<const Array*> inputs;
    for (const ir::TensorValueId id : node.inputs) {
      inputs.push_back(id == ir::kNoValue ? nullptr : &result(id));
    }
    const OpCall call{node, inputs,
                      [&](const TensorGraph& body, std::span<const Array> given) {
                        if (node.op != "If") count_trip();
                        return run_body(body, given);
                      },
                      budget_.options.max_loop_trips};
    std::vector<Array> made = run_named(node, [&] { return require_tensor_op(node).eval(call); });
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ir::TensorValueId id = node.outputs[i];
      if (id == ir::kNoValue) continue;
      if (i >= made.size() || made[i].type() == ElementType::kUndefined) {
        call.fail(fmt::format("output {} is wanted and not made", i));
      }
      if (last[static_cast<size_t>(id)] > n) value(id) = std::move(made[i]);
    }
  }

  void count_trip() {
    const int64_t limit = budget_.options.max_loop_trips;
    if (++budget_.trips / kLoopsPerRun <= limit) return;
    throw Error(Code::kUnsupported,
                fmt::format("all loops together run over {} trips", limit * kLoopsPerRun));
  }

  void drop_after(const TensorNode& node, const std::vector<size_t>& last, size_t n) {
    each_read(node, [&](ir::TensorValueId id) {
      const auto at = static_cast<size_t>(id);
      if (last[at] > n) return;
      values_[at].reset();
    });
  }

  std::vector<Array> run_body(const TensorGraph& body, std::span<const Array> given) {
    Frame frame(body, budget_);
    frame.capture(*this);
    if (given.size() != body.inputs.size()) {
      throw Error(Code::kInvalidModel, fmt::format("onnx: a body takes {} inputs, not {}",
                                                   body.inputs.size(), given.size()));
    }
    for (size_t i = 0; i < given.size(); ++i) frame.value(body.inputs[i]) = given[i];
    frame.run({});
    std::vector<Array> out;
    for (const ir::TensorValueId id : body.outputs) out.push_back(frame.result(id));
    return out;
  }

  const TensorGraph& graph_;
  Budget& budget_;
  std::vector<std::optional<Array>> values_;
};

std::string wanted_inputs(const TensorGraph& graph) {
  std::string out;
  for (const ir::TensorValueId id : graph.inputs) {
    out += out.empty() ? "" : ", ";
    out +=
        fmt::format("'{}' {}", graph.name_of(id), declared(graph.values[static_cast<size_t>(id)]));
  }
  return out;
}

// Names of values that look alike, else the outputs of nodes from the first on.
std::string some_values(const ir::TensorGraph& graph, const std::string& like) {
  constexpr size_t kShown = 8;
  std::vector<std::string> alike, others;
  for (const ir::TensorNode& node : graph.nodes) {
    for (const ir::TensorValueId id : node.outputs) {
      if (id == ir::kNoValue) continue;
      const std::string& name = graph.name_of(id);
      (name.find(like) != std::string::npos ? alike : others).push_back(name);
    }
  }
  std::vector<std::string>& shown = alike.empty() ? others : alike;
  const size_t more = shown.size() > kShown ? shown.size() - kShown : 0;
  shown.resize(shown.size() - more);
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::map<std::string, Array> run_tensor_graph(const TensorGraph& graph,
                                              const std::map<std::string, Array>& inputs,
                                              const TensorRunOptions& options) {
  const ir::WorkBudget work({.max_bytes = options.max_bytes, .max_multiply_adds = 0, .stop = {}});
  Budget budget{options};
  Frame frame(graph, budget);
  size_t given = 0;
  for (const ir::TensorValueId id : graph.inputs) {
    const ir::TensorValue& value = graph.values[static_cast<size_t>(id)];
    const auto found = inputs.find(value.name);
    if (found == inputs.end()) {
      throw Error(Code::kInvalidArgument, fmt::format("input '{}' is missing; the graph takes {}",
                                                      value.name, wanted_inputs(graph)));
    }
    check_input(value, found->second);
    frame.value(id) = found->second;
    ++given;
  }
  if (given < inputs.size()) {
    for (const auto& [name, array] : inputs) {
      const auto is_it = [&](ir::TensorValueId id) { return graph.name_of(id) == name; };
      if (std::none_of(graph.inputs.begin(), graph.inputs.end(), is_it)) {
        throw Error(
            Code::kInvalidArgument,
            fmt::format("there is no input '{}'; the graph takes {}", name, wanted_inputs(graph)));
      }
    }
  }
  std::vector<ir::TensorValueId> wanted = graph.outputs;
  for (const std::string& name : options.also) {
    const ir::TensorValueId id = graph.find(name);
    if (id == ir::kNoValue) {
      throw Error(Code::kInvalidArgument, fmt::format("there is no value '{}'; values are {}", name,
                                                      some_values(graph, name)));
    }
    wanted.push_back(id);
  }
  frame.run(wanted);
  std::map<std::string, Array> out;
  for (const ir::TensorValueId id : wanted) out.emplace(graph.name_of(id), frame.result(id));
  return out;
}

}  // namespace kvern::eval
