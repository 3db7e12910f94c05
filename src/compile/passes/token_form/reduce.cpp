#include "compile/passes/token_form/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compile/passes/token_form/activation.h"
#include "compile/passes/token_form/combine.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;
using ir::ReduceKind;
using Op = Expr::Op;

int32_t reduced(Walk& walk, int32_t x, ReduceKind kind, int64_t groups, const std::string& origin) {
  const ir::RowReduceAttrs attrs{kind, groups};
  const ir::ValueId y =
      walk.emit.add(ops::kRowReduce, {walk.emit.value_of(x)}, ir::Attrs::of(attrs), "row_reduce");
  return walk.emit.emitted(y, groups, origin);
}

// f of x and of one number per row of it.
int32_t mapped(Walk& walk, const ExprPtr& f, int32_t x, int32_t rows, const std::string& origin) {
  const ir::MapAttrs program{map_text(*f, 2).value()};
  const int64_t width = walk.emit.bases[static_cast<size_t>(x)].width;
  const ir::ValueId y = walk.emit.add(ops::kMap, {walk.emit.value_of(x), walk.emit.value_of(rows)},
                                      ir::Attrs::of(program), "map");
  return walk.emit.emitted(y, width, origin);
}

int32_t less_mean(Walk& walk, const JoinedRows& x, const std::string& origin) {
  const int32_t mean = reduced(walk, x.base, ReduceKind::kMean, x.heads(), origin);
  return mapped(walk, expr(Op::kSub, expr_x(0), expr_x(1)), x.base, mean, origin);
}

std::shared_ptr<const View> view_of(std::vector<ir::Array> elements) {
  auto out = std::make_shared<View>();
  out->elements = std::move(elements);
  return out;
}

// The axes of the node, of a tensor of `rank`; nullopt where they depend on lengths.
std::optional<std::vector<int64_t>> axes_of(const RuleCall& call, int64_t rank) {
  std::vector<int64_t> axes = call.node.ints("axes");
  if (call.has(1)) {
    if (call.in(1).known() == nullptr || !call.in(1).known()->uniform()) return std::nullopt;
    axes = call.in(1).known()->at(0).to_i64();
  }
  if (axes.empty() && call.node.i("noop_with_empty_axes", 0) == 0) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  return axes;
}

// [what is left, in its order; what is reduced].
ir::Array rows_over(const ir::Array& x, const std::vector<int64_t>& axes) {
  const Shape& shape = x.shape();
  std::vector<int64_t> order;  // of axes: those that stay first
  int64_t width = 1;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) order.push_back(i);
  }
  for (const int64_t axis : axes) {
    order.push_back(axis);
    width *= shape[static_cast<size_t>(axis)];
  }
  ir::TensorNode turn;
  turn.op = "Transpose";
  turn.opset = 13;
  turn.attrs["perm"] = order;
  const ir::Array* inputs[] = {&x};
  return eval::run_tensor_node(turn, inputs)
      .at(0)
      .reshaped({width == 0 ? 0 : x.count() / width, width});
}

Value reduce(const RuleCall& call, Value& x, const std::vector<int64_t>& axes, ReduceKind kind,
             std::vector<Shape> shapes) {
  Walk& walk = call.walk;
  std::string why;
  const auto view = as_view(walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  View rows;
  for (const ir::Array& array : view->elements) rows.elements.push_back(rows_over(array, axes));
  const auto joined = join_rows(walk, rows, call.node.who(), &why);
  if (!joined) return opaque(call, why);
  const int32_t y = reduced(walk, joined->base, kind, joined->heads(), call.node.who());
  std::vector<ir::Array> elements =
      row_elements(walk, joined->rows, std::span(shapes).first(walk.num_layout), 1, y);
  return view_value(x.type, std::move(shapes), std::move(elements));
}

struct Reduction {
  std::string_view op;
  ReduceKind kind;
  ExprPtr before, after;  // null: nothing
};
const Reduction* reduction_of(std::string_view op) {
  const ExprPtr x = expr_x();
  static const ExprPtr square = expr(Op::kMul, x, x), size = expr(Op::kAbs, x);
  static const ExprPtr root = expr(Op::kSqrt, x), log = expr(Op::kLog, x);
  static const Reduction kReductions[] = {
      {"ReduceSum", ReduceKind::kSum, nullptr, nullptr},
      {"ReduceMean", ReduceKind::kMean, nullptr, nullptr},
      {"ReduceMax", ReduceKind::kMax, nullptr, nullptr},
      {"ReduceMin", ReduceKind::kMin, nullptr, nullptr},
      {"ReduceL1", ReduceKind::kSum, size, nullptr},
      {"ReduceL2", ReduceKind::kSum, square, root},
      {"ReduceSumSquare", ReduceKind::kSum, square, nullptr},
      {"ReduceLogSum", ReduceKind::kSum, nullptr, log},
  };
  for (const Reduction& line : kReductions) {
    if (line.op == op) return &line;
  }
  return nullptr;
}

// exp(x - max) / its sum over each row of the last axis, or the logarithm of that.
Value softmax_rows(const RuleCall& call, Value& x, bool log) {
  Walk& walk = call.walk;
  std::string why;
  const auto view = as_view(walk, x, &why);
  if (view == nullptr) return opaque(call, why);
  const std::string origin = call.node.who();
  const auto joined = join_rows(walk, *view, origin, &why);
  if (!joined) return opaque(call, why);
  const int64_t heads = joined->heads();
  const int32_t most = reduced(walk, joined->base, ReduceKind::kMax, heads, origin);
  const ExprPtr less = expr(Op::kSub, expr_x(0), expr_x(1));
  const int32_t e = mapped(walk, expr(Op::kExp, less), joined->base, most, origin);
  const int32_t sum = reduced(walk, e, ReduceKind::kSum, heads, origin);
  int32_t y = -1;
  if (log) {
    const int32_t below = mapped(walk, less, joined->base, most, origin);
    y = mapped(walk, expr(Op::kSub, expr_x(0), expr(Op::kLog, expr_x(1))), below, sum, origin);
  } else {
    y = mapped(walk, expr(Op::kDiv, expr_x(0), expr_x(1)), e, sum, origin);
  }
  return view_value(
      x.type, x.shapes,
      row_elements(walk, joined->rows, std::span(x.shapes).first(walk.num_layout), joined->dim, y));
}

bool is_of_scores(const RuleCall& call) {
  return call.in(0).get<Scores>() != nullptr;
}

}  // namespace

std::optional<JoinedRows> join_rows(Walk& walk, const View& view, const std::string& origin,
                                    std::string* why) {
  std::optional<RowSet> rows = rows_of(walk, view, why);
  if (!rows) return std::nullopt;
  Features all;
  all.base = rows->heads[0].base;
  const size_t dim = rows->heads[0].index.size();
  for (const Features& head : rows->heads) {
    if (head.base != all.base) {
      *why = "its rows are made of several values there";
      return std::nullopt;
    }
    all.index.insert(all.index.end(), head.index.begin(), head.index.end());
    for (size_t i = 0; i < dim; ++i) {
      all.factor.push_back(head.factor[head.factor.size() == 1 ? 0 : i]);
    }
  }
  const bool one = std::all_of(all.factor.begin(), all.factor.end(),
                               [&](float factor) { return factor == all.factor[0]; });
  if (one) all.factor.resize(1);
  JoinedRows out;
  out.base = materialise(walk, all, "part", origin);
  out.dim = static_cast<int64_t>(dim);
  out.rows = std::move(*rows);
  return out;
}

std::vector<ir::Array> row_elements(const Walk& walk, const RowSet& rows,
                                    std::span<const Shape> shapes, int64_t each, int32_t base) {
  const auto heads = static_cast<int64_t>(rows.heads.size());
  std::vector<ir::Array> out;
  for (size_t world = 0; world < walk.num_layout; ++world) {
    ir::Array array(ir::ElementType::kSymbol, shapes[world]);
    const std::span<Symbol> to = array.mutable_as<Symbol>();
    for (size_t row = 0; row < rows.token[world].size(); ++row) {
      const int64_t first = (rows.token[world][row] * heads + rows.head[world][row]) * each;
      for (int64_t d = 0; d < each; ++d) {
        to[row * static_cast<size_t>(each) + static_cast<size_t>(d)] = element_of(base, first + d);
      }
    }
    out.push_back(std::move(array));
  }
  return out;
}

int32_t layer_norm_rows(Walk& walk, const JoinedRows& x, double eps, const std::string& origin) {
  const int32_t centered = less_mean(walk, x, origin);
  const int32_t variance = reduced(walk, centered, ReduceKind::kMeanSquare, x.heads(), origin);
  const ExprPtr root = expr(Op::kSqrt, expr(Op::kAdd, expr_x(1), expr_const(eps)));
  return mapped(walk, expr(Op::kDiv, expr_x(0), root), centered, variance, origin);
}

std::shared_ptr<const View> view_of_stat(Walk& walk, const Stat& stat,
                                         std::span<const Shape> shapes, std::string* why) {
  const auto joined = join_rows(walk, *times_number(*stat.x, stat.scale), "", why);
  if (!joined) return nullptr;
  const bool variance = stat.kind == Stat::Kind::kVariance;
  const int32_t x = variance ? less_mean(walk, *joined, "") : joined->base;
  const ReduceKind kind =
      stat.kind == Stat::Kind::kMean ? ReduceKind::kMean : ReduceKind::kMeanSquare;
  int32_t y = reduced(walk, x, kind, joined->heads(), "");
  if (stat.form != Stat::Form::kRaw || stat.eps != 0) {
    ExprPtr f = expr(Op::kAdd, expr_x(), expr_const(stat.eps));
    if (stat.form != Stat::Form::kRaw) f = expr(Op::kSqrt, f);
    if (stat.form == Stat::Form::kInverseRoot) f = expr(Op::kRecip, f);
    const ir::ValueId made = write_function(walk, *f, walk.emit.value_of(y));
    y = walk.emit.emitted(made, joined->heads(), "");
  }
  return view_of(row_elements(walk, joined->rows, shapes, 1, y));
}

std::shared_ptr<const View> view_of_centered(Walk& walk, const Centered& centered,
                                             std::span<const Shape> shapes, std::string* why) {
  const auto joined = join_rows(walk, *times_number(*centered.x, centered.scale), "", why);
  if (!joined) return nullptr;
  int32_t y = less_mean(walk, *joined, "");
  if (centered.squared) {
    const ir::ValueId square =
        write_function(walk, *expr(Op::kMul, expr_x(), expr_x()), walk.emit.value_of(y));
    y = walk.emit.emitted(square, joined->dim * joined->heads(), "");
  }
  return view_of(row_elements(walk, joined->rows, shapes, joined->dim, y));
}

Values rule_reduce(const RuleCall& call) {
  Value& x = call.in(0);
  if (is_of_scores(call)) {
    return {opaque(call, "it reduces attention scores, which no attention of Kvern does")};
  }
  const std::optional<std::vector<int64_t>> axes =
      axes_of(call, static_cast<int64_t>(x.shapes[0].size()));
  if (!axes) return {opaque(call, "its axes depend on lengths")};
  std::vector<Shape> shapes = inferred(call)[0].shapes;
  const Reduction* what = reduction_of(call.node.op);
  const bool plain = what != nullptr && what->before == nullptr && what->after == nullptr;
  if (axes->empty() && plain) return {x};
  if (what == nullptr || axes->empty()) {
    return {opaque(call,
                   "it is not supported yet on activations: sums, means, norms and the "
                   "largest and smallest element of a row are")};
  }
  Value before = x;
  Value* inputs[] = {&x};
  if (what->before != nullptr) before = combine(call, what->before, inputs, x.type, x.shapes);
  if (before.is_opaque()) return {std::move(before)};
  Value out = reduce(call, before, *axes, what->kind, shapes);
  if (what->after == nullptr || out.is_opaque()) return {std::move(out)};
  Value* sums[] = {&out};
  return {combine(call, what->after, sums, x.type, std::move(shapes))};
}

Values rule_softmax_of_features(const RuleCall& call) {
  Value& x = call.in(0);
  const auto rank = static_cast<int64_t>(x.shapes[0].size());
  const bool flattens = call.node.opset < 13;
  int64_t axis = call.node.i("axis", flattens ? 1 : -1);
  axis += axis < 0 ? rank : 0;
  const bool log = call.node.op == "LogSoftmax";
  if (axis == rank - 1) return {softmax_rows(call, x, log)};
  if (flattens) {
    return {opaque(call,
                   "before opset 13 it is over all axes from its own, which mixes tokens: "
                   "export with opset 13 or newer")};
  }
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  Value turned = run_op(call, "Transpose", 13, {x}, {{"perm", perm}});
  if (turned.is_opaque()) return {std::move(turned)};
  Value y = softmax_rows(call, turned, log);
  if (y.is_opaque()) return {std::move(y)};
  return {run_op(call, "Transpose", 13, {y}, {{"perm", perm}})};
}

}  // namespace kvern::passes::token_form
