// Products of integers: dynamic int8, whose activations would be rounded by one scale over all
// tokens.
#include <fmt/format.h>

#include <algorithm>

#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/quant_weight.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

using ir::ElementType;
using Op = Expr::Op;

Value dynamic_refused(const RuleCall& call) {
  return opaque(call,
                "it takes one scale over all tokens of the batch, so that a token's result would "
                "depend on who is served beside it; give --dynamic-quant per-token to keep the "
                "weights in int8 and take activations unrounded, or export without dynamic "
                "quantisation");
}

Value same_everywhere(const RuleCall& call, ir::Array array) {
  Value value = known(array.type(), {std::move(array)});
  value.shapes.resize(call.walk.worlds.size(), value.shapes[0]);
  return value;
}

// x times codes [k, n] less their zero points, unscaled.
Value times_codes(const RuleCall& call, Value& x, Value& codes, Value* zeros) {
  std::string why;
  const auto view = as_view(call.walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  const auto from = codes.known() == nullptr ? nullptr : provenance_of(codes);
  if (from == nullptr) return opaque(call, "it multiplies two activations in integers");
  ir::Array zero = ir::Array::scalar_f32(0);
  if (zeros != nullptr) {
    if (zeros->known() == nullptr || !zeros->known()->uniform()) {
      return opaque(call, "the zero point of its weight is computed");
    }
    zero = zeros->known()->at(0);
    // One for all columns, as exporters write them, even where there is one a column.
    const std::vector<float> all = zero.to_f32();
    const bool one = std::all_of(all.begin(), all.end(), [&](float v) { return v == all[0]; });
    if (all.empty() || !one) return opaque(call, "zero points of its weight differ");
    zero = ir::Array::scalar_f32(all[0]);
  }
  const auto plain = plain_codes(*from, std::move(zero));
  if (plain == nullptr) return opaque(call, "its weight is no matrix of 8-bit codes");
  auto turned = std::make_shared<Provenance>(*plain);
  turned->transposed = !turned->transposed;
  turned->shape = {plain->shape.back(), plain->shape[plain->shape.size() - 2]};
  std::vector<Shape> shapes = x.shapes;
  for (Shape& shape : shapes) shape.back() = turned->shape[0];
  return make_linear(call, *view, turned, ElementType::kFloat, std::move(shapes));
}

// Input 0 less its zero point, which is 0 where DynamicQuantizeLinear was left out.
Value less_zero(const RuleCall& call, Value* zeros) {
  Value& x = call.in(0);
  std::string why;
  if (ir::is_float(x.type)) {
    // Written once, for all that read it.
    if (as_view(call.walk, x, &why) == nullptr) return opaque(call, why);
    return x;
  }
  const std::optional<double> zero = zeros == nullptr ? 0.0 : scalar_of(*zeros);
  if (!zero) return opaque(call, "the zero point of its activations is not one constant");
  return rounded(call, x, ElementType::kFloat, true,
                 [&](ExprPtr code) { return expr(Op::kSub, std::move(code), expr_const(*zero)); });
}

}  // namespace

Values rule_dynamic_quantize(const RuleCall& call) {
  if (!call.walk.options.per_token_dynamic_quant) {
    return Values(call.node.outputs.size(), dynamic_refused(call));
  }
  Value codes = call.in(0);  // unrounded: scale 1, zero 0
  const std::string note = "activations of dynamic int8 products are taken unrounded";
  auto& notes = call.walk.out.notes;
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return {std::move(codes), same_everywhere(call, ir::Array::scalar_f32(1)),
          same_everywhere(call, ir::Array(ElementType::kUint8, {}))};
}

Values rule_matmul_integer(const RuleCall& call) {
  Value x = less_zero(call, call.has(2) ? &call.in(2) : nullptr);
  if (x.is_opaque()) return {std::move(x)};
  return {times_codes(call, x, call.in(1), call.has(3) ? &call.in(3) : nullptr)};
}

// (a, b, a_scale, b_scale, a_zero, b_zero, bias): a is what DynamicQuantizeLinear was given.
Values rule_matmul_integer_to_float(const RuleCall& call) {
  Value x = less_zero(call, call.has(4) ? &call.in(4) : nullptr);
  if (x.is_opaque()) return {std::move(x)};
  Value out = times_codes(call, x, call.in(1), call.has(5) ? &call.in(5) : nullptr);
  if (!out.is_opaque()) out = run_op(call, "Mul", 14, {out, call.in(3)});
  if (!out.is_opaque()) out = run_op(call, "Mul", 14, {out, call.in(2)});
  if (call.has(6) && !out.is_opaque()) out = add_values(call, out, call.in(6));
  return {std::move(out)};
}

// (a, b, b_scale, b_zero, bias)
Values rule_dynamic_quantize_matmul(const RuleCall& call) {
  if (!call.walk.options.per_token_dynamic_quant) return {dynamic_refused(call)};
  Value out = times_codes(call, call.in(0), call.in(1), call.has(3) ? &call.in(3) : nullptr);
  if (!out.is_opaque()) out = run_op(call, "Mul", 14, {out, call.in(2)});
  if (call.has(4) && !out.is_opaque()) out = add_values(call, out, call.in(4));
  return {std::move(out)};
}

std::optional<Value> scale_codes(const RuleCall& call, const Value& x, Value& scale,
                                 const std::vector<Shape>& shapes) {
  const auto view = x.view();
  if (view == nullptr || shapes != x.shapes || !is_feature_vector(scale)) return std::nullopt;
  const std::span<const Symbol> all = symbols(view->elements[0]);
  if (all.empty() || all[0].base[0] < 0) return std::nullopt;
  Walk& walk = call.walk;
  Base base = walk.emit.bases[static_cast<size_t>(all[0].base[0])];
  const int64_t width = shapes[0].back();
  if (!base.linear || base.value.valid() || base.linear->bias != nullptr || base.width != width ||
      !base.linear->weight->scales || base.linear->weight->scales->count() != 1 ||
      base.linear->weight->bits != 0) {
    return std::nullopt;
  }
  const int64_t count = num_elements(scale.shapes[0]);
  if (count != 1 && count != width) return std::nullopt;
  for (const ir::Array& array : view->elements) {
    int32_t at = 0;
    for (const Symbol& s : symbols(array)) {
      const bool own =
          s.base[0] == all[0].base[0] && s.base[1] == kNothing && s.factor[0] == 1 &&
          s.index[0] % static_cast<int32_t>(width) == at++ % static_cast<int32_t>(width);
      if (!own) return std::nullopt;
    }
  }
  auto weight = std::make_shared<Provenance>(*base.linear->weight);
  const float before = weight->scales->to_f32()[0];
  std::vector<float> scales = scale.known()->at(0).to_f32();
  const std::optional<ir::Array> file = lying(scale);
  if (before == 1 && file && ir::is_float(file->type())) {
    weight->scales = file->reshaped({count});
  } else {
    for (float& s : scales) s *= before;
    weight->scales = ir::Array::of<float>(ElementType::kFloat, {count}, scales);
  }
  weight->axis = weight->transposed ? 1 : 0;
  weight->block = 0;
  base.linear->weight = std::move(weight);
  const int32_t id = walk.emit.add_base(std::move(base));
  std::vector<ir::Array> elements = view->elements;
  for (ir::Array& array : elements) {
    for (Symbol& s : array.mutable_as<Symbol>()) s.base[0] = id;
  }
  return view_value(x.type, shapes, std::move(elements));
}

}  // namespace kvern::passes::token_form
