#include "compile/passes/token_form/provenance.h"

#include "base/check.h"
#include "compile/passes/token_form/quant_weight.h"

namespace kvern::passes::token_form {
namespace {

constexpr int64_t kSmall_elements = 4096;
constexpr int kMaxPending = 64;

bool is(const ir::TensorNode& node, std::string_view op) {
  return node.domain.empty() && node.op == op;
}

bool keeps_order(const ir::TensorNode& node) {
  return is(node, "Reshape") || is(node, "Squeeze") || is(node, "Unsqueeze") ||
         is(node, "Flatten") || is(node, "Identity");
}

// Dims above 1.
Shape counted(const Shape& shape) {
  Shape out;
  for (const int64_t dim : shape) {
    if (dim != 1) out.push_back(dim);
  }
  return out;
}

size_t num_large(const Shape& shape) {
  size_t count = 0;
  for (const int64_t dim : shape) count += dim != 1 ? 1 : 0;
  return count;
}

// What `from` becomes under the node; nullptr where it is a weight no more.
std::shared_ptr<const Provenance> moved(const RuleCall& call, const Provenance& from,
                                        const Shape& shape) {
  auto out = std::make_shared<Provenance>(from);
  out->shape = shape;
  if (keeps_order(call.node)) {
    if (!from.transposed && counted(shape) != counted(from.shape)) {
      if (from.scales) return nullptr;
      out->source = from.source.reshaped(shape);  // its rows are those of the new shape
    }
    const bool fixed = from.transposed || from.scales.has_value();
    if (fixed && num_large(shape) != num_large(from.shape)) return nullptr;
    if (fixed && num_large(shape) == 2) {
      // The two dims that count must stay the two that they were.
      std::vector<int64_t> before, after;
      for (const int64_t dim : from.shape) {
        if (dim != 1) before.push_back(dim);
      }
      for (const int64_t dim : shape) {
        if (dim != 1) after.push_back(dim);
      }
      if (before != after) return nullptr;
    }
    return out;
  }
  if (is(call.node, "Cast")) {
    const auto to = static_cast<ir::ElementType>(call.node.i("to", 0));
    const bool floats = from.scales.has_value() || ir::is_float(from.source.type());
    return ir::is_float(to) && floats ? out : nullptr;
  }
  if (is(call.node, "Transpose")) {
    if (from.shape.size() < 2) return out;
    std::vector<int64_t> perm = call.node.ints("perm");
    if (perm.empty()) {
      for (size_t i = from.shape.size(); i-- > 0;) perm.push_back(static_cast<int64_t>(i));
    }
    // Order of the dims above 1.
    std::vector<int64_t> large;
    for (const int64_t axis : perm) {
      if (from.shape[static_cast<size_t>(axis)] != 1) large.push_back(axis);
    }
    if (std::is_sorted(large.begin(), large.end())) return out;
    if (large.size() != 2) return nullptr;
    out->transposed = !from.transposed;
    return out;
  }
  return nullptr;
}

// Alone: rows of rows of tables would hang one on the other.
std::shared_ptr<const Known> without_table(const Value& value) {
  const auto& known = std::get<std::shared_ptr<Known>>(value.detail);
  if (known->table == nullptr) return known;
  auto out = std::make_shared<Known>(*known);
  out->table = out->rows = nullptr;
  return out;
}

}  // namespace

Value constant_value(const Walk& walk, const ir::Array& array) {
  Value value = known(array.type(), {array});
  value.shapes.resize(walk.worlds.size(), value.shapes[0]);
  auto from = std::make_shared<Provenance>();
  from->source = array;
  from->shape = array.shape();
  value.known()->from = std::move(from);
  return value;
}

std::optional<Value> fold_lazily(const RuleCall& call) {
  if (!call.has(0) || call.node.outputs.size() != 1) return std::nullopt;
  Value& x = call.in(0);
  const std::shared_ptr<const Provenance> codes = dequantised_weight(call);
  const bool moves = keeps_order(call.node) || is(call.node, "Cast") || is(call.node, "Transpose");
  const bool small = num_elements(x.shapes[0]) <= kSmall_elements;
  if (codes == nullptr &&
      (!moves || x.known()->from == nullptr || (small && !x.known()->from->scales.has_value()))) {
    return std::nullopt;
  }
  std::vector<Value> shapes = inferred(call);
  const auto from = codes != nullptr ? codes : moved(call, *x.known()->from, shapes[0].shapes[0]);
  if (from == nullptr) return std::nullopt;
  Value out = std::move(shapes[0]);
  auto made = std::make_shared<Known>();
  made->from = from;
  // The inputs by value: the walk lets go of them.
  std::vector<std::shared_ptr<Known>> inputs;
  made->pending = 1;
  for (const Value* input : call.inputs) {
    inputs.push_back(input == nullptr ? nullptr : std::get<std::shared_ptr<Known>>(input->detail));
    if (inputs.back() != nullptr && inputs.back()->make != nullptr) {
      made->pending = std::max(made->pending, inputs.back()->pending + 1);
    }
  }
  made->make = [node = call.node, inputs] {
    std::vector<const ir::Array*> arrays;
    for (const auto& input : inputs) arrays.push_back(input == nullptr ? nullptr : &input->at(0));
    return eval::run_tensor_node(node, arrays).at(0);
  };
  if (made->pending > kMaxPending) made->at(0);
  out.detail = std::move(made);
  return out;
}

void keep_provenance(const RuleCall& call, std::vector<Value>& outputs) {
  if (outputs.empty() || !call.has(0)) return;
  Value& x = call.in(0);
  if (x.known() == nullptr || outputs[0].known() == nullptr) return;
  if (is(call.node, "Gather") && call.has(1) && x.known()->uniform() && x.shapes[0].size() == 2 &&
      call.node.i("axis", 0) == 0 && ir::is_float(x.type)) {
    outputs[0].known()->table = without_table(x);
    outputs[0].known()->rows = without_table(call.in(1));
    return;
  }
  if (is(call.node, "Mul") && call.has(1)) {
    // Times one: scales of dynamic int8.
    for (const size_t i : {size_t{0}, size_t{1}}) {
      Value& other = call.in(1 - i);
      const bool same = other.shapes == outputs[0].shapes && other.known() != nullptr;
      if (same && scalar_of(call.in(i)) == 1.0) outputs[0].known()->from = other.known()->from;
    }
    return;
  }
  // Rows of a table under a change of shape or type are still rows of it.
  if ((keeps_order(call.node) || is(call.node, "Cast")) && x.known()->table != nullptr) {
    outputs[0].known()->table = x.known()->table;
    outputs[0].known()->rows = x.known()->rows;
  }
  if (x.known()->from == nullptr) return;
  outputs[0].known()->from = moved(call, *x.known()->from, outputs[0].shapes[0]);
}

std::shared_ptr<const Provenance> provenance_of(Value& value) {
  Known* k = value.known();
  if (k == nullptr || !k->uniform()) return nullptr;
  if (k->from != nullptr) return k->from;
  auto made = std::make_shared<Provenance>();
  made->source = k->at(0);
  made->shape = made->source.shape();
  return made;
}

}  // namespace kvern::passes::token_form
