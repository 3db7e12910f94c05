#include "compile/passes/token_form/sinks.h"

namespace kvern::passes::token_form {
namespace {

bool is_last_axis(int64_t axis, const Shape& shape) {
  return axis == -1 || axis == static_cast<int64_t>(shape.size()) - 1;
}

// What the node makes of 0, 1, 2, … along the last axis of `shape`, of which it keeps all others.
std::vector<int64_t> kept_columns(const RuleCall& call, size_t world, const Shape& shape) {
  ir::Array columns(ir::ElementType::kInt64, shape);
  const std::span<int64_t> to = columns.mutable_as<int64_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<int64_t>(i) % shape.back();
  std::vector<const ir::Array*> inputs = {&columns};
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    inputs.push_back(call.has(i) ? &call.in(i).known()->at(world) : nullptr);
  }
  return eval::run_tensor_node(call.node, inputs).at(0).to_i64();
}

// A sink per head: neither the position nor the length changes it, in long worlds either, of which
// attention is read by its mask alone.
bool is_one_per_head(Value& column) {
  std::vector<float> heads;
  size_t least = SIZE_MAX;
  const auto leads = [](const Shape& shape) {
    const int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    return static_cast<size_t>(rows > 0 ? num_elements(shape) / rows : 0);
  };
  for (size_t world = 0; world < column.shapes.size(); ++world) {
    const size_t count = leads(column.shapes[world]);
    if (count == 0) return false;
    if (count >= least) continue;
    least = count;
    const std::vector<float> values = column.known()->at(world).to_f32();
    heads.clear();
    for (size_t i = 0; i < count; ++i) heads.push_back(values[i * values.size() / count]);
  }
  for (size_t world = 0; world < column.shapes.size(); ++world) {
    const std::vector<float> values = column.known()->at(world).to_f32();
    const size_t rows = values.size() / leads(column.shapes[world]);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != heads[i / rows % least]) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Value> join_sinks(const RuleCall& call) {
  if (call.node.op != "Concat" || call.inputs.size() != 2) return std::nullopt;
  Value& x = call.in(0);
  Value& column = call.in(1);
  const Scores* scores = x.get<Scores>();
  if (scores == nullptr || scores->normalised || scores->capping || scores->sink_column ||
      !scores->sinks.empty() || column.known() == nullptr || !ir::is_float(column.type) ||
      !is_last_axis(call.node.i("axis", 0), x.shapes[0])) {
    return std::nullopt;
  }
  for (const Shape& shape : column.shapes) {
    if (shape.empty() || shape.back() != 1) return std::nullopt;
  }
  if (!is_one_per_head(column)) {
    return opaque(call,
                  "its sinks depend on position, length or batch; attention has one constant sink "
                  "per head");
  }
  Scores out = *scores;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    out.sinks.push_back(column.known()->at(world));
  }
  out.sink_column = true;
  std::vector<Shape> shapes = x.shapes;
  for (Shape& shape : shapes) ++shape.back();
  return scores_value(x.type, std::move(shapes), std::move(out));
}

std::optional<Value> drop_sinks(const RuleCall& call) {
  Value& x = call.in(0);
  const Scores* scores = x.get<Scores>();
  if (call.node.op != "Slice" || scores == nullptr || !scores->sink_column || !scores->normalised) {
    return std::nullopt;
  }
  std::vector<Shape> shapes = x.shapes;
  for (Shape& shape : shapes) --shape.back();
  if (inferred(call)[0].shapes != shapes) return std::nullopt;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    const std::vector<int64_t> kept = kept_columns(call, world, x.shapes[world]);
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] != static_cast<int64_t>(i) % shapes[world].back()) return std::nullopt;
    }
  }
  Scores out = *scores;
  out.sink_column = false;
  return scores_value(x.type, std::move(shapes), std::move(out));
}

std::vector<ir::Array> sinks_by_head(const Walk& walk, const std::vector<float>& values) {
  const auto heads = static_cast<int64_t>(values.size());
  return std::vector<ir::Array>(
      walk.num_layout,
      ir::Array::of<float>(ir::ElementType::kFloat, {1, heads, 1, 1}, std::span(values)));
}

}  // namespace kvern::passes::token_form
