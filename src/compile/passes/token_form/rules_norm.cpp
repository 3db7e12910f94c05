// Norms, as ops or as the arithmetic they are, and the vectors that follow them.
#include <fmt/format.h>

#include <cmath>

#include "compile/eval/tensor/contrib_defaults.h"
#include "compile/passes/token_form/activation.h"
#include "compile/passes/token_form/attention.h"
#include "compile/passes/token_form/combine.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/reduce.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

bool is_whole(const RowSet& rows, const Base& base, int64_t dim) {
  if (static_cast<int64_t>(rows.heads.size()) * dim != base.width) return false;
  for (size_t head = 0; head < rows.heads.size(); ++head) {
    const Features& f = rows.heads[head];
    if (f.factor != std::vector<float>{1.0f}) return false;
    for (size_t i = 0; i < f.index.size(); ++i) {
      if (f.index[i] != static_cast<int32_t>(head * static_cast<size_t>(dim) + i)) return false;
    }
  }
  return true;
}

bool is_last_axis(const RuleCall& call, int64_t axis) {
  return axis == -1 || axis == static_cast<int64_t>(call.in(0).shapes[0].size()) - 1;
}

Value with_gamma(const RuleCall& call, Value normed, size_t gamma, size_t beta) {
  if (normed.is_opaque()) return normed;
  if (call.has(gamma)) normed = run_op(call, "Mul", 14, {normed, call.in(gamma)});
  if (normed.is_opaque() || !call.has(beta)) return normed;
  return run_op(call, "Add", 14, {normed, call.in(beta)});
}

}  // namespace

ScaledView scaled_view_of(const std::shared_ptr<const View>& x, const Expr& f) {
  if (f.op == Expr::Op::kX) return {x, 1};
  const bool scales =
      f.op == Expr::Op::kMul && f.a->op == Expr::Op::kX && f.b->op == Expr::Op::kConst;
  return scales ? ScaledView{x, f.b->value} : ScaledView{};
}

std::shared_ptr<const View> times_number(const View& x, double factor) {
  auto out = std::make_shared<View>(x);
  if (factor == 1) return out;
  for (ir::Array& array : out->elements) {
    for (Symbol& s : array.mutable_as<Symbol>()) scale(s, static_cast<float>(factor));
  }
  return out;
}

Value make_norm(const RuleCall& call, const View& x, ir::ElementType type,
                const std::vector<Shape>& shapes, bool layer_norm, double eps) {
  Walk& walk = call.walk;
  std::string why;
  const std::optional<JoinedRows> joined = join_rows(walk, x, call.node.who(), &why);
  if (!joined) return opaque(call, why);
  int32_t id = -1;
  if (layer_norm && joined->heads() > 1) {
    id = layer_norm_rows(walk, *joined, eps, call.node.who());
  } else {
    Base base;
    base.origin = call.node.who();
    base.width = joined->heads() * joined->dim;
    base.norm = NormBase{joined->base, layer_norm, eps, joined->heads(), nullptr, nullptr, 0};
    id = walk.emit.add_base(std::move(base));
  }
  return view_value(type, shapes, row_elements(walk, joined->rows, shapes, joined->dim, id));
}

Value with_vector(const RuleCall& call, Value& x, Value& vector, bool multiply,
                  std::vector<Shape> shapes) {
  Walk& walk = call.walk;
  std::string why;
  const auto view = as_view(walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  const int64_t dim = shapes[0].back();
  const auto from = provenance_of(vector);
  const bool fits = shapes == x.shapes && num_elements(vector.shapes[0]) == dim;
  const std::optional<RowSet> rows = fits ? rows_of(walk, *view, &why) : std::nullopt;
  if (rows && from != nullptr) {
    Base base = walk.emit.bases[static_cast<size_t>(rows->heads[0].base)];
    const bool whole = is_whole(*rows, base, dim) && !base.value.valid();
    bool taken = false;
    if (whole && multiply && base.norm && base.norm->gamma == nullptr &&
        base.norm->beta == nullptr) {
      base.norm->gamma = from;
      taken = true;
    } else if (whole && !multiply && base.norm && base.norm->layer_norm &&
               base.norm->beta == nullptr) {
      base.norm->beta = from;
      taken = true;
    } else if (whole && !multiply && base.linear && base.linear->bias == nullptr &&
               rows->heads.size() == 1) {
      base.linear->bias = from;
      taken = true;
    }
    if (taken) {
      const int32_t id = walk.emit.add_base(std::move(base));
      return view_value(x.type, shapes, row_elements(walk, *rows, shapes, dim, id));
    }
  }
  if (multiply) {
    std::vector<ir::Array> elements;
    const std::vector<float> by = vector.known()->at(0).to_f32();
    for (size_t world = 0; world < walk.num_layout; ++world) {
      ir::Array out = broadcast(view->elements[world], shapes[world]);
      size_t i = 0;
      for (Symbol& s : out.mutable_as<Symbol>()) {
        const float factor = by[by.size() == 1 ? 0 : i % by.size()];
        ++i;
        scale(s, factor);
      }
      elements.push_back(std::move(out));
    }
    return view_value(x.type, std::move(shapes), std::move(elements));
  }
  if (!same_counts(shapes, x.shapes)) {
    Value* values[] = {&x, &vector};
    return combine(call, expr(Expr::Op::kAdd, expr_x(0), expr_x(1)), values, x.type,
                   std::move(shapes));
  }
  const std::optional<TokenSet> set = tokens_of(walk, *view, &why);
  if (!set) return opaque(call, why);
  const std::vector<float> values = vector.known()->at(0).to_f32();
  std::vector<double> more;
  for (size_t i = 0; i < set->features.index.size(); ++i) more.push_back(values[i % values.size()]);
  const int32_t picked = materialise(walk, set->features, "part", call.node.who());
  const auto width = static_cast<int64_t>(more.size());
  const ir::ValueId y = vector_map(walk, walk.emit.value_of(picked), VectorOp::kAdd,
                                   walk.emit.literal("shift", {width}, std::move(more)));
  const int32_t id = walk.emit.emitted(y, width, call.node.who());
  std::vector<ir::Array> elements = placed(*set, std::span(shapes).first(walk.num_layout), id);
  return view_value(x.type, std::move(shapes), std::move(elements));
}

Values rule_reduce_mean(const RuleCall& call) {
  Value& x = call.in(0);
  std::vector<int64_t> axes = call.node.ints("axes");
  if (call.has(1) && call.in(1).known() != nullptr && call.in(1).known()->uniform()) {
    axes = call.in(1).known()->at(0).to_i64();
  }
  if (axes.size() != 1 || !is_last_axis(call, axes[0]) || call.node.i("keepdims", 1) == 0 ||
      x.get<Scores>() != nullptr) {
    return rule_reduce(call);
  }
  Value out = inferred(call)[0];
  Stat stat;
  if (const Centered* centered = x.get<Centered>(); centered != nullptr && centered->squared) {
    stat.x = centered->x;
    stat.scale = centered->scale;
    stat.kind = Stat::Kind::kVariance;
  } else if (const Func* func = x.get<Func>()) {
    const Expr& f = *func->f;
    const bool square = f.op == Expr::Op::kMul && f.a == f.b;
    const ScaledView of = square ? scaled_view_of(func->x, *f.a) : ScaledView{};
    if (of.x == nullptr) return rule_reduce(call);
    stat.x = of.x;
    stat.scale = of.scale;
    stat.kind = Stat::Kind::kMeanSquare;
  } else {
    std::string why;
    stat.x = as_view(call.walk, x, &why);
    if (stat.x == nullptr) return {opaque(call, why)};
    if (stat.x->root != nullptr) {
      stat.scale = stat.x->factor;
      stat.x = stat.x->root;
    }
    stat.kind = Stat::Kind::kMean;
  }
  out.detail = std::make_shared<const Stat>(std::move(stat));
  return {std::move(out)};
}

Values rule_norm(const RuleCall& call) {
  const bool layer = call.node.op == "LayerNormalization";
  if (!is_last_axis(call, call.node.i("axis", -1))) {
    return {opaque(call, "it norms over more than the last axis")};
  }
  std::string why;
  const auto view = as_view(call.walk, call.in(0), &why);
  if (view == nullptr) return {opaque(call, why)};
  Value normed = make_norm(call, *view, call.in(0).type, call.in(0).shapes, layer,
                           call.node.f("epsilon", 1e-5));
  return {with_gamma(call, std::move(normed), 1, 2)};
}

Values rule_skip_norm(const RuleCall& call) {
  const bool layer = call.node.op == "SkipLayerNormalization";
  Value sum = add_values(call, call.in(0), call.in(1));
  const size_t bias = layer ? 4 : 3;
  if (!sum.is_opaque() && call.has(bias)) sum = add_values(call, sum, call.in(bias));
  if (sum.is_opaque()) return Values(call.node.outputs.size(), sum);
  std::string why;
  const auto view = as_view(call.walk, sum, &why);
  if (view == nullptr) return Values(call.node.outputs.size(), opaque(call, why));
  Value normed = make_norm(call, *view, sum.type, sum.shapes, layer,
                           call.node.f("epsilon", eval::kSkipNormEpsilon));
  normed = with_gamma(call, std::move(normed), 2, layer ? 3 : 99);
  return {std::move(normed), opaque(call, "a mean"), opaque(call, "a variance"), std::move(sum)};
}

}  // namespace kvern::passes::token_form
