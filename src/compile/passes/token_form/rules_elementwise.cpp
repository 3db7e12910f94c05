// Functions of single elements, sums and products of activations, and vectors of constants.
#include <fmt/format.h>

#include <cmath>

#include "compile/ir/ops.h"
#include "compile/passes/token_form/activation.h"
#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/combine.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/rotation.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;
using Op = Expr::Op;

std::optional<Op> unary_op(std::string_view name) {
  constexpr std::pair<std::string_view, Op> kOps[] = {
      {"Neg", Op::kNeg},   {"Sqrt", Op::kSqrt},        {"Exp", Op::kExp},
      {"Tanh", Op::kTanh}, {"Sigmoid", Op::kSigmoid},  {"Erf", Op::kErf},
      {"Relu", Op::kRelu}, {"Reciprocal", Op::kRecip}, {"Sin", Op::kSin},
      {"Cos", Op::kCos},
  };
  for (const auto& [op, value] : kOps) {
    if (op == name) return value;
  }
  return std::nullopt;
}

std::optional<Op> binary_op(std::string_view name) {
  constexpr std::pair<std::string_view, Op> kOps[] = {
      {"Add", Op::kAdd}, {"Sum", Op::kAdd}, {"Sub", Op::kSub}, {"Mul", Op::kMul},
      {"Div", Op::kDiv}, {"Pow", Op::kPow}, {"Max", Op::kMax}, {"Min", Op::kMin},
  };
  for (const auto& [op, value] : kOps) {
    if (op == name) return value;
  }
  return std::nullopt;
}

// A view times numbers, one per element; `factors` broadcasts in every layout world.
Value times(const RuleCall& call, const View& x, Value& factors, bool divide, const Value& like,
            std::vector<Shape> shapes) {
  std::vector<ir::Array> elements;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    ir::Array out = broadcast(x.elements[world], shapes[world]);
    const std::vector<float> by = broadcast(factors.known()->at(world), shapes[world]).to_f32();
    size_t i = 0;
    for (Symbol& s : out.mutable_as<Symbol>()) {
      scale(s, divide ? 1.0f / by[i] : by[i]);
      ++i;
    }
    elements.push_back(std::move(out));
  }
  return view_value(like.type, std::move(shapes), std::move(elements));
}

Value scaled(const RuleCall& call, const Value& value, double factor, std::vector<Shape> shapes) {
  const auto view = value.view();
  auto made = std::make_shared<View>();
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    ir::Array out = view->elements[world].reshaped(shapes[world]);
    for (Symbol& s : out.mutable_as<Symbol>()) scale(s, static_cast<float>(factor));
    made->elements.push_back(std::move(out));
  }
  const bool same_shape = shapes == value.shapes;
  if (same_shape) {
    made->root = view->root == nullptr ? view : view->root;
    made->factor = view->factor * factor;
  }
  Value out;
  out.type = value.type;
  out.shapes = std::move(shapes);
  out.detail = std::shared_ptr<const View>(std::move(made));
  return out;
}

// The sum (or difference) of two views of one base, term by term; nothing where it has too many.
std::optional<std::vector<ir::Array>> sum_of_terms(const RuleCall& call, const View& a,
                                                   const View& b, double sign,
                                                   const std::vector<Shape>& shapes) {
  std::vector<ir::Array> out;
  for (size_t world = 0; world < call.walk.num_layout; ++world) {
    ir::Array sum = broadcast(a.elements[world], shapes[world]);
    const ir::Array more = broadcast(b.elements[world], shapes[world]);
    const std::span<const Symbol> from = symbols(more);
    const std::span<Symbol> to = sum.mutable_as<Symbol>();
    for (size_t i = 0; i < to.size(); ++i) {
      for (int term = 0; term < 2; ++term) {
        if (from[i].base[term] == kNothing) continue;
        if (from[i].base[term] < 0 || from[i].base[term] != to[i].base[0]) return std::nullopt;
        int at = -1;
        for (int mine = 0; mine < 2 && at < 0; ++mine) {
          const bool same =
              to[i].base[mine] == from[i].base[term] && to[i].index[mine] == from[i].index[term];
          if (same || to[i].base[mine] == kNothing) at = mine;
        }
        if (at < 0) return std::nullopt;
        to[i].base[at] = from[i].base[term];
        to[i].index[at] = from[i].index[term];
        to[i].factor[at] += static_cast<float>(sign) * from[i].factor[term];
      }
    }
    out.push_back(std::move(sum));
  }
  return out;
}

// a op b of two activations, written now.
Value write_binary(const RuleCall& call, Value& a, Value& b, const ir::OpSchema& op,
                   const char* hint, std::vector<Shape> shapes) {
  std::string why;
  const auto x = as_view(call.walk, a, &why);
  const auto y = x == nullptr ? nullptr : as_view(call.walk, b, &why);
  if (y == nullptr) return opaque(call, why);
  const std::optional<TokenSet> left = tokens_of(call.walk, *x, &why);
  const std::optional<TokenSet> right = left ? tokens_of(call.walk, *y, &why) : std::nullopt;
  if (!right) return opaque(call, why);
  if (left->place != right->place || a.shapes != b.shapes) {
    return opaque(call, kCrosses);
  }
  Walk& walk = call.walk;
  const int32_t l = materialise(walk, left->features, "part", call.node.who());
  const int32_t r = materialise(walk, right->features, "part", call.node.who());
  const ir::ValueId made = walk.emit.graph.add(op, {walk.emit.value_of(l), walk.emit.value_of(r)},
                                               op.default_attrs(), hint, call.node.name)[0];
  const int32_t base =
      walk.emit.emitted(made, static_cast<int64_t>(left->features.index.size()), call.node.who());
  std::vector<ir::Array> elements = placed(*left, std::span(shapes).first(walk.num_layout), base);
  return view_value(a.type, std::move(shapes), std::move(elements));
}

bool is_zero(Value& value, const Walk& walk) {
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    for (const float v : value.known()->at(world).to_f32()) {
      if (v != 0) return false;
    }
  }
  return true;
}

// x plus rows of a table that positions choose: learned positions.
Value add_positions(const RuleCall& call, Value& x, Value& rows, std::vector<Shape> shapes) {
  const Known& k = *rows.known();
  Walk& walk = call.walk;
  if (k.table == nullptr) {
    return opaque(call,
                  "it adds a constant that differs from token to token and is no row of a "
                  "table of positions");
  }
  std::optional<int64_t> offset;
  for (size_t world = 0; world < walk.worlds.size(); ++world) {
    const World& w = walk.worlds[world];
    const std::vector<int64_t> at = const_cast<Known&>(*k.rows).at(world).to_i64();
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t position = w.past + static_cast<int64_t>(i) % w.tokens;
      if (!offset) offset = at[i] - position;
      if (at[i] - position != *offset || *offset < 0) {
        const bool anew = w.past > 0 && at[i] == static_cast<int64_t>(i) % w.tokens;
        return opaque(
            call, fmt::format("row {} of its table goes to the token at position {}: its rows do "
                              "not follow the positions of tokens{}",
                              at[i], position, anew ? ", but begin anew behind a past" : ""));
      }
    }
  }
  Value table;
  table.detail = std::const_pointer_cast<Known>(k.table);
  const auto from = provenance_of(table);
  if (from == nullptr || from->shape.size() != 2)
    return opaque(call, "its table is not one constant");
  const ir::ValueId weight = walk.emit.weight(
      *from, {offset.value_or(0), from->shape[0] - offset.value_or(0), 0}, "positions.weight");
  const ir::ValueId places =
      walk.emit.add(ops::kEmbedding, {walk.emit.positions(), weight}, "positions.embed");
  const int64_t width = from->shape[1];
  const int32_t base = walk.emit.emitted(places, width, call.node.who());
  // As a view of the layout of x: [.., tokens, width].
  std::string why;
  const auto view = as_view(walk, x, &why);
  const std::optional<TokenSet> set = view == nullptr ? std::nullopt : tokens_of(walk, *view, &why);
  if (!set) return opaque(call, why);
  if (static_cast<int64_t>(set->features.index.size()) != width || !same_counts(shapes, x.shapes)) {
    return opaque(call, "positions are not as wide as what they are added to");
  }
  Value other =
      view_value(x.type, shapes, placed(*set, std::span(shapes).first(walk.num_layout), base));
  const int64_t rows_left = from->shape[0] - *offset, others = walk.out.learned_positions;
  walk.out.learned_positions = others > 0 ? std::min(others, rows_left) : rows_left;
  walk.out.notes.push_back(
      fmt::format("learned positions, {} rows from row {}", from->shape[0] - *offset, *offset));
  return write_binary(call, x, other, ops::kAdd, "embed.placed", std::move(shapes));
}

// x op c, or c op x.
Value combine_sides(const RuleCall& call, Op op, Value& a, Value& b, std::vector<Shape> shapes) {
  Value* values[] = {&a, &b};
  const Value& like = a.known() == nullptr ? a : b;
  return combine(call, expr(op, expr_x(0), expr_x(1)), values, like.type, std::move(shapes));
}

// What a map wrote, a norm of single heads say: its gamma is written too, for a rotation that
// follows turns features of one factor.
bool is_mapped(const Walk& walk, const Value& x) {
  const auto view = x.view();
  if (view == nullptr || symbols(view->elements[0]).empty()) return false;
  const int32_t base = symbols(view->elements[0])[0].base[0];
  if (base < 0) return false;
  const ir::ValueId value = walk.emit.bases[static_cast<size_t>(base)].value;
  const ir::Graph& graph = walk.emit.graph;
  return value.valid() && graph.nodes()[graph.producer(value)].op == &ops::kMap;
}

Value with_number(const RuleCall& call, Op op, Value& x, Value& c, double number, bool x_first,
                  std::vector<Shape> shapes) {
  if (x.view() != nullptr && op == Op::kMul) return scaled(call, x, number, std::move(shapes));
  if (x.view() != nullptr && op == Op::kDiv && x_first) {
    return scaled(call, x, 1.0 / number, std::move(shapes));
  }
  if ((op == Op::kAdd || op == Op::kSub) && number == 0 && x_first && shapes == x.shapes) return x;
  if (op == Op::kPow && x_first && number == 2) {
    return combine_sides(call, Op::kMul, x, x, std::move(shapes));
  }
  return x_first ? combine_sides(call, op, x, c, std::move(shapes))
                 : combine_sides(call, op, c, x, std::move(shapes));
}

Value known_side(const RuleCall& call, Op op, Value& x, Value& c, bool x_first,
                 std::vector<Shape> shapes) {
  std::string why;
  if (!of_view(call.walk, x, &why)) return opaque(call, why);
  if (op == Op::kMul) {
    if (std::optional<Value> made = scale_codes(call, x, c, shapes)) return std::move(*made);
  }
  if (const std::optional<double> number = scalar_of(c)) {
    return with_number(call, op, x, c, *number, x_first, std::move(shapes));
  }
  if (op == Op::kMul && c.known()->uniform() && shapes == x.shapes && is_mapped(call.walk, x)) {
    Value made = combine_sides(call, op, x, c, shapes);
    if (!made.is_opaque()) return made;
  }
  if (op == Op::kMul || (op == Op::kDiv && x_first)) {
    if (op == Op::kMul && is_feature_vector(c)) {
      return with_vector(call, x, c, true, std::move(shapes));
    }
    const auto view = as_view(call.walk, x, &why);
    if (view == nullptr) return opaque(call, why);
    Value exact = exact_angles(call, c);
    note_turned(call.walk, *view, exact);
    return times(call, *view, exact, op == Op::kDiv, x, std::move(shapes));
  }
  if ((op == Op::kAdd || (op == Op::kSub && x_first)) && shapes == x.shapes &&
      is_zero(c, call.walk)) {
    return x;
  }
  if (op == Op::kAdd && is_feature_vector(c)) {
    return with_vector(call, x, c, false, std::move(shapes));
  }
  if (op == Op::kAdd && !c.known()->uniform() && !rows_alike(call.walk, c)) {
    return add_positions(call, x, c, std::move(shapes));
  }
  return x_first ? combine_sides(call, op, x, c, std::move(shapes))
                 : combine_sides(call, op, c, x, std::move(shapes));
}

Value stat_value(const Value& like, Stat stat) {
  Value out = like;
  out.detail = std::make_shared<const Stat>(std::move(stat));
  return out;
}

ScaledView scaled_view(const Value& value) {
  if (const Func* func = value.get<Func>()) return scaled_view_of(func->x, *func->f);
  const auto view = value.view();
  if (view == nullptr) return {};
  return view->root == nullptr ? ScaledView{view, 1} : ScaledView{view->root, view->factor};
}

// x / sqrt(mean square + eps), (x - mean) / sqrt(variance + eps) and their parts.
std::optional<Value> stat_binary(const RuleCall& call, Op op, Value& a, Value& b,
                                 const std::vector<Shape>& shapes) {
  const Stat* sa = a.get<Stat>();
  const Stat* sb = b.get<Stat>();
  const Centered* ca = a.get<Centered>();
  const Centered* cb = b.get<Centered>();
  if (sa == nullptr && sb == nullptr && ca == nullptr && cb == nullptr) return std::nullopt;
  const std::optional<double> number_b = scalar_of(b), number_a = scalar_of(a);
  if (sa != nullptr && sa->form == Stat::Form::kRaw && op == Op::kAdd && number_b) {
    Stat out = *sa;
    out.eps += *number_b;
    return stat_value(a, out);
  }
  if (sb != nullptr && sb->form == Stat::Form::kRaw && op == Op::kAdd && number_a) {
    Stat out = *sb;
    out.eps += *number_a;
    return stat_value(b, out);
  }
  if (sa != nullptr && sa->form == Stat::Form::kRaw && op == Op::kPow && number_b &&
      (*number_b == 0.5 || *number_b == -0.5)) {
    Stat out = *sa;
    out.form = *number_b > 0 ? Stat::Form::kRoot : Stat::Form::kInverseRoot;
    return stat_value(a, out);
  }
  if (sb != nullptr && op == Op::kDiv && number_a && *number_a == 1 &&
      sb->form == Stat::Form::kRoot) {
    Stat out = *sb;
    out.form = Stat::Form::kInverseRoot;
    return stat_value(b, out);
  }
  if (op == Op::kSub && sb != nullptr && sb->kind == Stat::Kind::kMean &&
      sb->form == Stat::Form::kRaw && sb->eps == 0 &&
      scaled_view(a) == ScaledView{sb->x, sb->scale}) {
    Value out = a;
    out.detail = std::make_shared<const Centered>(Centered{sb->x, sb->scale, false});
    return out;
  }
  if (ca != nullptr && !ca->squared &&
      ((op == Op::kPow && number_b && *number_b == 2) ||
       (op == Op::kMul && cb != nullptr && cb->x == ca->x && cb->scale == ca->scale))) {
    Value out = a;
    out.detail = std::make_shared<const Centered>(Centered{ca->x, ca->scale, true});
    return out;
  }
  const auto norm = [&](Value& x, const Centered* centered,
                        const Stat& stat) -> std::optional<Value> {
    const bool layer = stat.kind == Stat::Kind::kVariance;
    if (layer && (centered == nullptr || centered->squared || centered->x != stat.x ||
                  centered->scale != stat.scale))
      return std::nullopt;
    if (!layer &&
        (stat.kind != Stat::Kind::kMeanSquare || scaled_view(x) != ScaledView{stat.x, stat.scale}))
      return std::nullopt;
    return make_norm(call, *times_number(*stat.x, stat.scale), x.type, shapes, layer, stat.eps);
  };
  if (op == Op::kMul && sb != nullptr && sb->form == Stat::Form::kInverseRoot)
    return norm(a, ca, *sb);
  if (op == Op::kMul && sa != nullptr && sa->form == Stat::Form::kInverseRoot)
    return norm(b, cb, *sa);
  if (op == Op::kDiv && sb != nullptr && sb->form == Stat::Form::kRoot) return norm(a, ca, *sb);
  return std::nullopt;
}

}  // namespace

Values rule_unary(const RuleCall& call) {
  Value& x = call.in(0);
  if (const Scores* scores = x.get<Scores>()) {
    if (scores->sink_column || scores->row_max) {
      return {opaque(call, "it changes attention scores together with their sinks")};
    }
    if (call.node.op == "IsNaN" && scores->normalised) {
      Scores test = *scores;
      test.is_nan_test = true;
      return {scores_value(ir::ElementType::kBool, x.shapes, std::move(test))};
    }
    if (call.node.op == "Tanh" && !scores->normalised && scores->bias.empty() &&
        scores->softcap == 0) {
      Scores capped = *scores;
      capped.capping = true;
      return {scores_value(x.type, x.shapes, std::move(capped))};
    }
    return {opaque(call, "it changes attention scores in a way that is no mask, scale or softcap")};
  }
  if (const Stat* stat = x.get<Stat>()) {
    Stat out = *stat;
    if (call.node.op == "Sqrt" && stat->form == Stat::Form::kRaw) {
      out.form = Stat::Form::kRoot;
      return {stat_value(x, out)};
    }
    if (call.node.op == "Reciprocal" && stat->form == Stat::Form::kRoot) {
      out.form = Stat::Form::kInverseRoot;
      return {stat_value(x, out)};
    }
  }
  const std::optional<Op> op = unary_op(call.node.op);
  if (!op) return rule_function(call);
  if (*op == Op::kNeg && x.view() != nullptr) return {scaled(call, x, -1.0, x.shapes)};
  Value* values[] = {&x};
  return {combine(call, expr(*op, expr_x()), values, x.type, x.shapes)};
}

Value add_values(const RuleCall& call, Value& a, Value& b) {
  return run_op(call, "Add", 14, {a, b});
}

Values rule_binary(const RuleCall& call) {
  if (call.inputs.size() == 1) return {call.in(0)};
  if (call.inputs.size() > 2) {  // Sum, Max, Min
    Value sum = call.in(0);
    for (size_t i = 1; i < call.inputs.size(); ++i) {
      sum = run_op(call, call.node.op.c_str(), call.node.opset, {sum, call.in(i)});
    }
    return {std::move(sum)};
  }
  Value& a = call.in(0);
  Value& b = call.in(1);
  const std::optional<Op> op = binary_op(call.node.op);
  std::vector<Shape> shapes = inferred(call)[0].shapes;
  if (a.get<Scores>() != nullptr) return {scores_with(call, a, b, std::move(shapes))};
  if (b.get<Scores>() != nullptr && *op == Op::kDiv) {
    return {opaque(call, "it divides by attention scores")};
  }
  if (b.get<Scores>() != nullptr) return {scores_with(call, b, a, std::move(shapes))};
  if (std::optional<Value> made = stat_binary(call, *op, a, b, shapes)) return {std::move(*made)};
  if (b.known() != nullptr) return {known_side(call, *op, a, b, true, std::move(shapes))};
  if (a.known() != nullptr) return {known_side(call, *op, b, a, false, std::move(shapes))};
  std::string why;
  const std::optional<OfView> fa = of_view(call.walk, a, &why);
  const std::optional<OfView> fb = fa ? of_view(call.walk, b, &why) : std::nullopt;
  if (!fb) return {opaque(call, why)};
  const bool linear =
      a.view() != nullptr && b.view() != nullptr && (*op == Op::kAdd || *op == Op::kSub);
  const bool is_short = fa->f->size + fb->f->size < kMaxExprSize;
  if (fa->x == fb->x && !linear && a.shapes == b.shapes && is_short) {
    return {combine_sides(call, *op, a, b, std::move(shapes))};
  }
  if (linear) {
    const double sign = *op == Op::kSub ? -1.0 : 1.0;
    if (auto terms = sum_of_terms(call, *a.view(), *b.view(), sign, shapes)) {
      return {view_value(a.type, std::move(shapes), std::move(*terms))};
    }
  }
  if (a.shapes != b.shapes) return {combine_sides(call, *op, a, b, std::move(shapes))};
  if (*op == Op::kAdd) return {write_binary(call, a, b, ops::kAdd, "add", std::move(shapes))};
  if (*op == Op::kMul) return {write_binary(call, a, b, ops::kMul, "mul", std::move(shapes))};
  if (*op == Op::kSub && b.view() != nullptr) {
    Value negated = scaled(call, b, -1.0, b.shapes);
    return {write_binary(call, a, negated, ops::kAdd, "sub", std::move(shapes))};
  }
  return {combine_sides(call, *op, a, b, std::move(shapes))};
}

Values rule_clip(const RuleCall& call) {
  Value& x = call.in(0);
  if (x.get<Scores>() != nullptr) return {opaque(call, "it clips attention scores")};
  const auto bound = [&](size_t input, const char* attr) -> std::optional<double> {
    if (call.has(input)) return scalar_of(call.in(input));
    if (call.node.has(attr)) return call.node.f(attr, 0);
    return std::nullopt;
  };
  const auto low = bound(1, "min"), high = bound(2, "max");
  if ((call.has(1) && !low) || (call.has(2) && !high)) {
    return {opaque(call, "its bounds depend on activations or on lengths")};
  }
  ExprPtr f = expr_x();
  if (low && std::isfinite(*low)) f = expr(Op::kMax, f, expr_const(*low));
  if (high && std::isfinite(*high)) f = expr(Op::kMin, f, expr_const(*high));
  Value* values[] = {&x};
  return {combine(call, f, values, x.type, x.shapes)};
}

Values rule_gelu(const RuleCall& call) {
  Value x = call.in(0);
  if (call.has(1)) x = add_values(call, x, call.in(1));  // FastGelu's and BiasGelu's bias
  if (x.is_opaque()) return {std::move(x)};
  const ExprPtr v = expr_x();
  const auto k = [](double value) { return expr_const(value); };
  ExprPtr f;
  const std::string& op = call.node.op;
  if (op == "QuickGelu" || op == "Swish") {
    const double alpha = call.node.f("alpha", op == "Swish" ? 1.0 : 1.702);
    f = expr(Op::kMul, v, expr(Op::kSigmoid, expr(Op::kMul, k(alpha), v)));
  } else if (op == "FastGelu" || call.node.s("approximate", "none") == "tanh") {
    const ExprPtr cube = expr(Op::kMul, v, expr(Op::kMul, v, v));
    const ExprPtr inner = expr(Op::kMul, k(std::sqrt(2 / 3.14159265358979323846)),
                               expr(Op::kAdd, v, expr(Op::kMul, k(0.044715), cube)));
    f = expr(Op::kMul, expr(Op::kMul, k(0.5), v), expr(Op::kAdd, k(1), expr(Op::kTanh, inner)));
  } else {
    const ExprPtr inner = expr(Op::kMul, v, k(1 / std::sqrt(2.0)));
    f = expr(Op::kMul, expr(Op::kMul, k(0.5), v), expr(Op::kAdd, k(1), expr(Op::kErf, inner)));
  }
  Value* values[] = {&x};
  return {combine(call, f, values, x.type, x.shapes)};
}

}  // namespace kvern::passes::token_form
