// Ops that are functions of single elements, by their formulas in the ONNX standard.
#include <fmt/format.h>

#include "compile/passes/token_form/combine.h"
#include "compile/passes/token_form/rules.h"

namespace kvern::passes::token_form {
namespace {

using Op = Expr::Op;
using Operands = std::span<const ExprPtr>;

ExprPtr k(double value) {
  return expr_const(value);
}
ExprPtr add(ExprPtr a, ExprPtr b) {
  return expr(Op::kAdd, std::move(a), std::move(b));
}
ExprPtr sub(ExprPtr a, ExprPtr b) {
  return expr(Op::kSub, std::move(a), std::move(b));
}
ExprPtr mul(ExprPtr a, ExprPtr b) {
  return expr(Op::kMul, std::move(a), std::move(b));
}
ExprPtr div(ExprPtr a, ExprPtr b) {
  return expr(Op::kDiv, std::move(a), std::move(b));
}
ExprPtr less(ExprPtr a, ExprPtr b) {
  return expr(Op::kLess, std::move(a), std::move(b));
}
ExprPtr equal(ExprPtr a, ExprPtr b) {
  return expr(Op::kEqual, std::move(a), std::move(b));
}
ExprPtr either(ExprPtr a, ExprPtr b) {
  return expr(Op::kMax, std::move(a), std::move(b));
}
ExprPtr lesser(ExprPtr a, ExprPtr b) {
  return expr(Op::kMin, std::move(a), std::move(b));
}
// A select, not arithmetic: a NaN on the side that is not taken stays there.
ExprPtr where(ExprPtr c, ExprPtr a, ExprPtr b) {
  return expr(Op::kWhere, std::move(c), std::move(a), std::move(b));
}
ExprPtr exp_of(ExprPtr a) {
  return expr(Op::kExp, std::move(a));
}

// log(1 + e^x), where e^x is larger than f32 too.
ExprPtr softplus(const ExprPtr& x) {
  const ExprPtr small = exp_of(expr(Op::kNeg, expr(Op::kAbs, x)));
  return add(either(x, k(0)), expr(Op::kLog, add(k(1), small)));
}

ExprPtr hard_sigmoid(const ExprPtr& x, double alpha, double beta) {
  return either(k(0), lesser(k(1), add(mul(k(alpha), x), k(beta))));
}

ExprPtr sinh_or_cosh(const ExprPtr& x, bool is_sinh) {
  const ExprPtr up = exp_of(x), down = exp_of(expr(Op::kNeg, x));
  return mul(k(0.5), is_sinh ? sub(up, down) : add(up, down));
}

struct Line {
  std::string_view op;
  size_t arity;
  ExprPtr (*make)(const ir::TensorNode& node, Operands x);
};

using Node = ir::TensorNode;

constexpr Line kFunctions[] = {
    {"Abs", 1, [](const Node&, Operands x) { return expr(Op::kAbs, x[0]); }},
    {"And", 2, [](const Node&, Operands x) { return lesser(x[0], x[1]); }},
    {"Ceil", 1, [](const Node&, Operands x) { return expr(Op::kCeil, x[0]); }},
    {"Celu", 1,
     [](const Node& n, Operands x) {
       const double alpha = n.f("alpha", 1);
       const ExprPtr below = mul(k(alpha), sub(exp_of(div(x[0], k(alpha))), k(1)));
       return add(either(k(0), x[0]), lesser(k(0), below));
     }},
    {"Cosh", 1, [](const Node&, Operands x) { return sinh_or_cosh(x[0], false); }},
    {"Elu", 1,
     [](const Node& n, Operands x) {
       return where(less(x[0], k(0)), mul(k(n.f("alpha", 1)), sub(exp_of(x[0]), k(1))), x[0]);
     }},
    {"Equal", 2, [](const Node&, Operands x) { return equal(x[0], x[1]); }},
    {"Floor", 1, [](const Node&, Operands x) { return expr(Op::kFloor, x[0]); }},
    {"Greater", 2, [](const Node&, Operands x) { return less(x[1], x[0]); }},
    {"GreaterOrEqual", 2,
     [](const Node&, Operands x) { return either(less(x[1], x[0]), equal(x[0], x[1])); }},
    {"HardSigmoid", 1,
     [](const Node& n, Operands x) {
       return hard_sigmoid(x[0], n.f("alpha", 0.2), n.f("beta", 0.5));
     }},
    {"HardSwish", 1,
     [](const Node&, Operands x) { return mul(x[0], hard_sigmoid(x[0], 1.0 / 6, 0.5)); }},
    {"IsNaN", 1, [](const Node&, Operands x) { return equal(equal(x[0], x[0]), k(0)); }},
    {"LeakyRelu", 1,
     [](const Node& n, Operands x) {
       return where(less(x[0], k(0)), mul(k(n.f("alpha", 0.01)), x[0]), x[0]);
     }},
    {"Less", 2, [](const Node&, Operands x) { return less(x[0], x[1]); }},
    {"LessOrEqual", 2,
     [](const Node&, Operands x) { return either(less(x[0], x[1]), equal(x[0], x[1])); }},
    {"Log", 1, [](const Node&, Operands x) { return expr(Op::kLog, x[0]); }},
    {"Mish", 1, [](const Node&, Operands x) { return mul(x[0], expr(Op::kTanh, softplus(x[0]))); }},
    {"Not", 1, [](const Node&, Operands x) { return equal(x[0], k(0)); }},
    {"Or", 2, [](const Node&, Operands x) { return either(x[0], x[1]); }},
    {"PRelu", 2,
     [](const Node&, Operands x) { return where(less(x[0], k(0)), mul(x[1], x[0]), x[0]); }},
    {"Round", 1, [](const Node&, Operands x) { return expr(Op::kRound, x[0]); }},
    {"Selu", 1,
     [](const Node& n, Operands x) {
       const double alpha = n.f("alpha", 1.67326319217681884765625);
       const ExprPtr below = mul(k(alpha), sub(exp_of(x[0]), k(1)));
       return mul(k(n.f("gamma", 1.05070102214813232421875)), where(less(k(0), x[0]), x[0], below));
     }},
    {"Sign", 1, [](const Node&, Operands x) { return sub(less(k(0), x[0]), less(x[0], k(0))); }},
    {"Sinh", 1, [](const Node&, Operands x) { return sinh_or_cosh(x[0], true); }},
    {"Softplus", 1, [](const Node&, Operands x) { return softplus(x[0]); }},
    {"Softsign", 1,
     [](const Node&, Operands x) { return div(x[0], add(k(1), expr(Op::kAbs, x[0]))); }},
    {"Tan", 1,
     [](const Node&, Operands x) { return div(expr(Op::kSin, x[0]), expr(Op::kCos, x[0])); }},
    {"ThresholdedRelu", 1,
     [](const Node& n, Operands x) { return where(less(k(n.f("alpha", 1)), x[0]), x[0], k(0)); }},
    {"Where", 3, [](const Node&, Operands x) { return where(x[0], x[1], x[2]); }},
    {"Xor", 2, [](const Node&, Operands x) { return equal(equal(x[0], x[1]), k(0)); }},
};

}  // namespace

Values rule_function(const RuleCall& call) {
  for (const Line& line : kFunctions) {
    if (line.op != call.node.op || call.inputs.size() < line.arity) continue;
    std::vector<ExprPtr> x;
    std::vector<Value*> values;
    for (size_t i = 0; i < line.arity; ++i) {
      x.push_back(expr_x(static_cast<int>(i)));
      values.push_back(&call.in(i));
    }
    Value out = inferred(call)[0];
    return {combine(call, line.make(call.node, x), values, out.type, out.shapes)};
  }
  return {opaque(call, "it is not supported yet on activations")};
}

}  // namespace kvern::passes::token_form
