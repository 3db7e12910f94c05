#include "compile/passes/token_form/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "compile/eval/tensor/node_guard.h"
#include "compile/passes/token_form/no_rule.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/rotation_table.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

bool all_known(const RuleCall& call) {
  return std::all_of(call.inputs.begin(), call.inputs.end(), [](const Value* input) {
    return input == nullptr || input->known() != nullptr;
  });
}

// A first reason among the inputs; nullptr when all are understood.
const Value* first_opaque(const RuleCall& call) {
  for (const Value* input : call.inputs) {
    if (input != nullptr && input->is_opaque()) return input;
  }
  return nullptr;
}

std::vector<ir::Array> evaluate_in(const RuleCall& call, size_t world) {
  std::vector<const ir::Array*> arrays;
  for (Value* input : call.inputs) {
    arrays.push_back(input == nullptr ? nullptr : &input->known()->at(world));
  }
  return eval::run_tensor_node(call.node, arrays);
}

std::vector<Value> fold_numbers(const RuleCall& call) {
  const size_t num_worlds = call.walk.worlds.size();
  bool uniform = true;
  for (const Value* input : call.inputs) {
    uniform = uniform && (input == nullptr || input->known()->uniform());
  }
  if (uniform) {
    if (std::optional<Value> kept = fold_lazily(call)) return {std::move(*kept)};
  }
  std::vector<std::vector<ir::Array>> by_output(call.node.outputs.size());
  for (size_t world = 0; world < (uniform ? 1 : num_worlds); ++world) {
    std::vector<ir::Array> results = evaluate_in(call, world);
    for (size_t i = 0; i < by_output.size() && i < results.size(); ++i) {
      by_output[i].push_back(std::move(results[i]));
    }
  }
  std::vector<Value> out;
  for (auto& arrays : by_output) {
    if (arrays.empty()) {
      out.push_back(opaque("an output that was not computed"));
      continue;
    }
    const ir::ElementType type = arrays[0].type();
    if (arrays.size() == 1) note_frequencies(call.walk, arrays[0]);
    Value value = known(type, std::move(arrays));
    if (value.shapes.size() == 1) value.shapes.resize(num_worlds, value.shapes[0]);
    out.push_back(std::move(value));
  }
  keep_provenance(call, out);
  return out;
}

bool is_by_length(const Value* value) {
  return value != nullptr && value->known() != nullptr && value->known()->by_length;
}

std::vector<Value> fold(const RuleCall& call) {
  std::vector<Value> out = fold_numbers(call);
  if (std::none_of(call.inputs.begin(), call.inputs.end(), is_by_length)) return out;
  for (Value& value : out) {
    if (value.known() != nullptr) value.known()->by_length = true;
  }
  return out;
}

bool truth(Value& condition, size_t world) {
  return condition.known()->at(world).to_i64(1).at(0) != 0;
}

bool differs(const Walk& walk, Value& condition) {
  for (size_t world = 1; world < walk.worlds.size(); ++world) {
    if (truth(condition, world) != truth(condition, 0)) return true;
  }
  return false;
}

void note_choice(const RuleCall& call, Value& condition) {
  Walk& walk = call.walk;
  LengthChoice choice;
  choice.node = call.node.who();
  choice.decided_at = walk.worlds[walk.deciding].total();
  const bool taken = truth(condition, walk.deciding);
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    auto& lengths = truth(condition, world) == taken ? choice.same_at : choice.other_at;
    lengths.push_back(walk.worlds[world].total());
  }
  walk.out.notes.push_back(
      fmt::format("{} chooses by length; the plan holds what it chooses at {} tokens", choice.node,
                  choice.decided_at));
  walk.out.choices.push_back(std::move(choice));
}

// The taken one, known for what it is from here on.
Value chosen(const Value& taken) {
  Value out = taken;
  auto made = std::make_shared<Known>(*taken.known());
  made->by_length = true;
  out.detail = std::move(made);
  return out;
}

// What is chosen by length turns activations by their positions, or meets none.
bool may_read_chosen(const RuleCall& call, size_t input) {
  const ir::TensorNode& node = call.node;
  const bool microsoft = node.domain == "com.microsoft";
  if (node.op == "Mul" && node.domain.empty()) return !call.in(input).known()->uniform();
  if (node.op == "RotaryEmbedding")
    return input == (microsoft ? 2 : 1) || input == (microsoft ? 3 : 2);
  return node.op == "GroupQueryAttention" && microsoft && (input == 7 || input == 8);
}

bool misreads_chosen(const RuleCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (is_by_length(call.inputs[i]) && !may_read_chosen(call, i)) return true;
  }
  return false;
}

constexpr const char* kMisread =
    "it reads numbers that the graph chooses by length, and only tables of cos and sin may be "
    "chosen so: export without the choice";

// Cos and sin, or frequencies: what may be chosen by length.
bool is_table(Value& value) {
  return value.known() != nullptr && value.known()->uniform() && ir::is_float(value.type) &&
         num_elements(value.shapes[0]) > 1;
}

// Where(one condition that differs by length, table, table): as the deciding world has it.
std::optional<Value> choose_table(const RuleCall& call) {
  if (!call.node.domain.empty() || call.node.op != "Where" || call.inputs.size() != 3) {
    return std::nullopt;
  }
  Value& condition = call.in(0);
  if (condition.known()->uniform() || !is_table(call.in(1)) || !is_table(call.in(2))) {
    return std::nullopt;
  }
  for (const Shape& shape : condition.shapes) {
    if (num_elements(shape) != 1) return std::nullopt;
  }
  if (call.in(1).shapes != call.in(2).shapes || !differs(call.walk, condition)) return std::nullopt;
  note_choice(call, condition);
  return chosen(truth(condition, call.walk.deciding) ? call.in(1) : call.in(2));
}

std::vector<Value> run_body(const RuleCall& call, const char* branch, std::vector<Value>& outer) {
  const auto body = call.node.graph(branch);
  if (body == nullptr) return {opaque(call, "it lacks a branch")};
  std::vector<Value> values(body->values.size(), opaque("not computed"));
  for (const auto& [from, to] : body->captures) {
    values[static_cast<size_t>(to)] = outer[static_cast<size_t>(from)];
  }
  walk_graph(call.walk, *body, values);
  std::vector<Value> out;
  for (const ir::TensorValueId id : body->outputs) out.push_back(values[static_cast<size_t>(id)]);
  return out;
}

// The branch that every world takes. Where they differ, only tables may be chosen.
std::vector<Value> run_branch(const RuleCall& call, std::vector<Value>& outer) {
  Value& condition = call.in(0);
  if (condition.known() == nullptr) {
    return std::vector<Value>(call.node.outputs.size(),
                              opaque(call, "its condition depends on activations"));
  }
  constexpr const char* kBranches[] = {"else_branch", "then_branch"};
  if (!differs(call.walk, condition)) {
    return run_body(call, kBranches[truth(condition, 0) ? 1 : 0], outer);
  }
  std::vector<Value> both[] = {run_body(call, kBranches[0], outer),
                               run_body(call, kBranches[1], outer)};
  for (size_t i = 0; i < both[0].size(); ++i) {
    const bool tables = i < both[1].size() && is_table(both[0][i]) && is_table(both[1][i]);
    if (tables) continue;
    return std::vector<Value>(
        call.node.outputs.size(),
        opaque(call,
               "it computes something else at some lengths than at others; only tables of "
               "cos and sin may be chosen by length"));
  }
  note_choice(call, condition);
  std::vector<Value>& taken = both[truth(condition, call.walk.deciding) ? 1 : 0];
  for (Value& value : taken) value = chosen(value);
  return taken;
}

bool only_needs_shapes(const ir::TensorNode& node) {
  return node.domain.empty() && (node.op == "Shape" || node.op == "Size");
}

std::vector<Value> shapes_as_constants(const RuleCall& call) {
  const size_t num_worlds = call.walk.worlds.size();
  const Value& x = call.in(0);
  std::vector<ir::Array> arrays;
  for (size_t world = 0; world < num_worlds; ++world) {
    // A byte of the same shape would do; the op looks at dims alone. Large ones are not made.
    const Shape& shape = x.shapes[world];
    if (call.node.op == "Size") {
      arrays.push_back(ir::Array::scalar_i64(num_elements(shape)));
      continue;
    }
    const auto rank = static_cast<int64_t>(shape.size());
    const auto place = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const int64_t start = place(call.node.i("start", 0));
    const int64_t end = place(call.node.i("end", rank));
    std::vector<int64_t> dims;
    for (int64_t i = start; i < end; ++i) dims.push_back(shape[static_cast<size_t>(i)]);
    arrays.push_back(ir::Array::vector_i64(std::move(dims)));
  }
  bool equal = true;
  for (const ir::Array& array : arrays) equal = equal && array.to_i64() == arrays[0].to_i64();
  if (equal) arrays.resize(1);
  Value value = known(ir::ElementType::kInt64, std::move(arrays));
  value.shapes.resize(num_worlds, value.shapes[0]);
  return {std::move(value)};
}

std::vector<Value> apply(const RuleCall& call, std::vector<Value>& values) {
  const ir::TensorNode& node = call.node;
  if (node.domain.empty() && node.op == "If") return run_branch(call, values);
  if (only_needs_shapes(node) && call.has(0) && !call.in(0).shapes.empty()) {
    return shapes_as_constants(call);
  }
  if (all_known(call)) {
    eval::require_tensor_op(node);
    if (std::optional<Value> chosen = choose_table(call)) return {std::move(*chosen)};
    return fold(call);
  }
  if (const Value* problem = first_opaque(call)) {
    return std::vector<Value>(node.outputs.size(), *problem);
  }
  if (misreads_chosen(call)) {
    return std::vector<Value>(node.outputs.size(), opaque(call, kMisread));
  }
  const Rule rule = find_rule(node);
  if (rule == nullptr) {
    std::string reason = why_no_rule(call);
    if (reason.empty()) {
      eval::require_tensor_op(node);
      reason = "it is not supported yet on activations";
    }
    return std::vector<Value>(node.outputs.size(), opaque(call, reason));
  }
  return rule(call);
}

// The last node that makes or reads each value.
std::vector<size_t> last_uses(const ir::TensorGraph& graph) {
  std::vector<size_t> last(graph.values.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::TensorNode& node = graph.nodes[i];
    const auto use = [&](ir::TensorValueId id) {
      if (id != ir::kNoValue) last[static_cast<size_t>(id)] = i;
    };
    for (const ir::TensorValueId id : node.outputs) use(id);
    for (const ir::TensorValueId id : node.inputs) use(id);
    for (const auto& [name, attr] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const ir::TensorGraph>>(&attr);
      if (body == nullptr) continue;
      for (const auto& [outer, own] : (*body)->captures) use(outer);
    }
  }
  return last;
}

void read_past(Walk& walk, Value& value) {
  const Unread* past = value.get<Unread>();
  if (past == nullptr) return;
  std::vector<ir::Array> elements;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    elements.push_back(symbols_of_base(past->base, value.shapes[world]));
  }
  value = view_value(value.type, value.shapes, std::move(elements));
}

void read_pasts(Walk& walk, const ir::TensorNode& node, std::vector<Value>& values) {
  if (only_needs_shapes(node)) return;
  for (const ir::TensorValueId id : node.inputs) {
    if (id != ir::kNoValue) read_past(walk, values[static_cast<size_t>(id)]);
  }
}

// Nodes of token form that a node of the file made know it: functions that it wrote for the first
// time are of the node that said them.
class Origins {
 public:
  Origins(const ir::TensorGraph& graph, ir::Graph& written) : written_(written) {
    for (const ir::TensorNode& node : graph.nodes) {
      for (const ir::TensorValueId id : node.outputs) makers_[id] = &node;
    }
  }

  void begin(const RuleCall& call) {
    first_ = written_.nodes().size();
    functions_.clear();
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.has(i) && call.in(i).get<Func>() != nullptr) functions_.push_back(i);
    }
  }

  void end(const RuleCall& call) {
    if (written_.nodes().size() == first_) return;
    const ir::TensorNode* node = &call.node;
    for (const size_t i : functions_) {
      const auto maker = makers_.find(call.node.inputs[i]);
      if (call.in(i).get<Func>() == nullptr && maker != makers_.end()) node = maker->second;
    }
    for (size_t i = first_; i < written_.nodes().size(); ++i) {
      ir::Node& made = written_.nodes()[i];
      if (made.op == &ir::ops::kWeight || !made.source_name.empty()) continue;
      made.source_name = node->name.empty() ? node->op : node->name;
    }
  }

 private:
  ir::Graph& written_;
  std::map<ir::TensorValueId, const ir::TensorNode*> makers_;
  size_t first_ = 0;
  std::vector<size_t> functions_;
};

}  // namespace

Value& RuleCall::in(size_t i) const {
  if (!has(i)) {
    throw Error(Code::kInvalidModel, fmt::format("onnx: {} lacks its input {}", node.who(), i));
  }
  return *inputs[i];
}

Value fold_node(const RuleCall& call) {
  return fold(call).at(0);
}

void walk_graph(Walk& walk, const ir::TensorGraph& graph, std::vector<Value>& values) {
  for (const auto& [id, array] : graph.constants) {
    values[static_cast<size_t>(id)] = constant_value(walk, array);
    note_frequencies(walk, array);
  }
  const std::vector<size_t> last = last_uses(graph);
  const std::set<ir::TensorValueId> outputs(graph.outputs.begin(), graph.outputs.end());
  const bool is_main = &graph == &walk.model.graph;
  Origins origins(graph, walk.emit.graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::TensorNode& node = graph.nodes[i];
    if (is_main && walk.options.progress) walk.options.progress(i, graph.nodes.size());
    read_pasts(walk, node, values);
    std::vector<Value*> inputs;
    for (const ir::TensorValueId id : node.inputs) {
      inputs.push_back(id == ir::kNoValue ? nullptr : &values[static_cast<size_t>(id)]);
    }
    const RuleCall call{walk, node, inputs};
    origins.begin(call);
    std::vector<Value> results = eval::run_named(node, [&] { return apply(call, values); });
    origins.end(call);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == ir::kNoValue) continue;
      values[static_cast<size_t>(node.outputs[o])] =
          o < results.size() ? std::move(results[o]) : opaque(call, "this output is not made");
    }
    const auto leave = [&](ir::TensorValueId id) {
      if (id == ir::kNoValue || last[static_cast<size_t>(id)] != i) return;
      Value& value = values[static_cast<size_t>(id)];
      if (!outputs.contains(id)) {
        value = opaque("used up");
      } else if (is_main) {
        settle_output(walk, id, value);
      }
    };
    for (const ir::TensorValueId id : node.inputs) leave(id);
    for (const ir::TensorValueId id : node.outputs) leave(id);
  }
  if (!is_main) return;
  for (const ir::TensorValueId id : graph.outputs) {  // those that are inputs
    read_past(walk, values[static_cast<size_t>(id)]);
    settle_output(walk, id, values[static_cast<size_t>(id)]);
  }
}

Value opaque(const std::string& reason) {
  Value value;
  value.detail = Opaque{reason};
  return value;
}

Value opaque(const RuleCall& call, const std::string& problem) {
  return opaque(fmt::format("{}: {}", call.node.who(), problem));
}

Value known(ir::ElementType type, std::vector<ir::Array> arrays) {
  Value value;
  value.type = type;
  for (const ir::Array& array : arrays) value.shapes.push_back(array.shape());
  auto made = std::make_shared<Known>();
  made->arrays = std::move(arrays);
  value.detail = std::move(made);
  return value;
}

Value view_value(ir::ElementType type, std::vector<Shape> shapes, std::vector<ir::Array> elements) {
  Value value;
  value.type = type;
  value.shapes = std::move(shapes);
  auto made = std::make_shared<View>();
  made->elements = std::move(elements);
  value.detail = std::shared_ptr<const View>(std::move(made));
  return value;
}

Value scores_value(ir::ElementType type, std::vector<Shape> shapes, Scores scores) {
  Value value;
  value.type = type;
  value.shapes = std::move(shapes);
  value.detail = std::make_shared<const Scores>(std::move(scores));
  return value;
}

std::vector<Value> inferred(const RuleCall& call) {
  std::vector<Value> out(call.node.outputs.size());
  for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
    std::vector<eval::TensorFact> facts(call.inputs.size());
    std::vector<const eval::TensorFact*> pointers(call.inputs.size(), nullptr);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i] == nullptr) continue;
      Value& input = *call.inputs[i];
      facts[i].type = input.type;
      facts[i].shape = input.shapes.at(world);
      if (input.known() != nullptr && input.known()->make == nullptr) {
        facts[i].value = &input.known()->at(world);
      }
      pointers[i] = &facts[i];
    }
    const std::vector<eval::TensorFact> results = eval::infer_tensor_node(call.node, pointers);
    for (size_t o = 0; o < out.size() && o < results.size(); ++o) {
      out[o].type = results[o].type;
      out[o].shapes.push_back(results[o].shape);
    }
  }
  return out;
}

ir::Array constant_symbols(const ir::Array& array) {
  ir::Array out(ir::ElementType::kSymbol, array.shape());
  const std::vector<float> values = array.to_f32();
  size_t i = 0;
  for (Symbol& s : out.mutable_as<Symbol>()) {
    s = {};
    s.base[0] = kConstant;
    s.factor[0] = values[i++];
  }
  return out;
}

std::vector<ir::Array> run_layout(const RuleCall& call, size_t world) {
  std::vector<ir::Array> made(call.inputs.size());
  std::vector<const ir::Array*> arrays(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] == nullptr) continue;
    Value& input = *call.inputs[i];
    if (const View* view = input.get<View>()) {
      arrays[i] = &view->elements.at(world);
    } else if (const Scores* scores = input.get<Scores>()) {
      arrays[i] = &scores->elements.at(world);
    } else if (input.known() != nullptr) {
      const ir::Array& array = input.known()->at(world);
      made[i] = ir::is_float(input.type) ? constant_symbols(array) : array;
      arrays[i] = &made[i];
    }
  }
  return eval::run_tensor_node(call.node, arrays);
}

std::optional<double> scalar_of(Value& value) {
  Known* k = value.known();
  if (k == nullptr || !k->uniform() || num_elements(value.shapes.at(0)) != 1) return std::nullopt;
  const ir::Array& array = k->at(0);
  if (ir::is_float(array.type())) return array.to_f64(1)[0];
  return static_cast<double>(array.to_i64(1)[0]);
}

bool is_feature_vector(Value& value) {
  Known* k = value.known();
  if (k == nullptr || !k->uniform()) return false;
  const Shape& shape = value.shapes[0];
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (shape[i] != 1) return false;
  }
  return !shape.empty();
}

}  // namespace kvern::passes::token_form
