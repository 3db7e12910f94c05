// What happens to attention scores between the two products.
#include <fmt/format.h>

#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {

Value scores_with(const RuleCall& call, Value& value, Value& other, std::vector<Shape> shapes) {
  const Scores& scores = *value.get<Scores>();
  const std::string& op = call.node.op;
  const std::optional<double> number = scalar_of(other);
  if (scores.normalised) return opaque(call, "it changes probabilities");
  // Softmax is the same of a row less its largest.
  const Scores* subtracted = other.get<Scores>();
  if (op == "Sub" && subtracted != nullptr && subtracted->row_max && !scores.row_max &&
      subtracted->product == scores.product && subtracted->factor == scores.factor &&
      subtracted->sink_column == scores.sink_column && shapes == value.shapes) {
    return value;
  }
  if (scores.row_max || scores.sink_column || subtracted != nullptr) {
    return opaque(call, "it combines attention scores, or their sinks, in a way that is not known");
  }
  Scores out = scores;
  if (number && (op == "Mul" || op == "Div")) {
    const double by = op == "Mul" ? *number : 1 / *number;
    if (scores.capping) {
      if (op != "Mul") return opaque(call, "it divides the tanh of attention scores");
      out.capping = false;
      out.softcap = by;
      out.factor *= by;  // inside of the tanh they are divided by it
      return scores_value(value.type, std::move(shapes), std::move(out));
    }
    if (scores.softcap != 0) return opaque(call, "it scales attention scores after their softcap");
    out.factor *= by;
    for (ir::Array& bias : out.bias) {
      for (float& v : bias.mutable_as<float>()) v *= static_cast<float>(by);
    }
    return scores_value(value.type, std::move(shapes), std::move(out));
  }
  // A lower bound far below every score (the lowest float): nothing visible changes.
  if (number && op == "Max" && *number < -1e30) return value;
  if (op == "Add" && other.known() != nullptr && !scores.capping) {
    std::vector<ir::Array> bias;
    for (size_t world = 0; world < call.walk.worlds.size(); ++world) {
      bias.push_back(other.known()->at(world));
    }
    if (shapes != value.shapes) return opaque(call, "its mask is larger than the scores");
    add_bias(out, bias);
    return scores_value(value.type, std::move(shapes), std::move(out));
  }
  return opaque(call, "it changes attention scores in a way that is no mask, scale or softcap");
}

Values rule_reduce_max(const RuleCall& call) {
  Value& x = call.in(0);
  const Scores* scores = x.get<Scores>();
  std::vector<int64_t> axes = call.node.ints("axes");
  if (call.has(1) && call.in(1).known() != nullptr && call.in(1).known()->uniform()) {
    axes = call.in(1).known()->at(0).to_i64();
  }
  if (scores == nullptr) return rule_reduce(call);
  const auto rank = static_cast<int64_t>(x.shapes[0].size());
  if (scores->normalised || scores->capping || scores->row_max || axes.size() != 1 ||
      (axes[0] != -1 && axes[0] != rank - 1) || call.node.i("keepdims", 1) == 0) {
    return {opaque(call, "it takes the largest of something else than a row of attention scores")};
  }
  Scores out = *scores;
  out.row_max = true;
  return {scores_value(x.type, inferred(call)[0].shapes, std::move(out))};
}

Values rule_softmax(const RuleCall& call) {
  Value& x = call.in(0);
  const auto rank = static_cast<int64_t>(x.shapes[0].size());
  const int64_t axis = call.node.i("axis", call.node.opset < 13 ? 1 : -1);
  const Scores* scores = x.get<Scores>();
  if (scores == nullptr) return rule_softmax_of_features(call);
  if (axis != -1 && axis != rank - 1) {
    return {opaque(call, "softmax over another axis than the keys")};
  }
  if (scores->capping || scores->normalised || scores->row_max) {
    return {opaque(call, "softmax of scores that are in the middle of a softcap, or normalised")};
  }
  Scores out = *scores;
  out.normalised = true;
  return {scores_value(x.type, x.shapes, std::move(out))};
}

}  // namespace kvern::passes::token_form
