#include "compile/passes/token_form/value.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace kvern::passes::token_form {

const ir::Array& Known::at(size_t world) {
  if (make) {
    arrays = {make()};
    make = nullptr;
  }
  KVERN_CHECK(!arrays.empty(), "a constant without elements");
  return arrays.size() == 1 ? arrays[0] : arrays.at(world);
}

ExprPtr expr_x(int which) {
  static const ExprPtr x = std::make_shared<const Expr>();
  if (which == 0) return x;
  Expr made;
  made.value = which;
  return std::make_shared<const Expr>(std::move(made));
}

ExprPtr expr_const(double value) {
  Expr made;
  made.op = Expr::Op::kConst;
  made.value = value;
  return std::make_shared<const Expr>(std::move(made));
}

ExprPtr expr(Expr::Op op, ExprPtr a, ExprPtr b, ExprPtr c) {
  Expr made;
  made.op = op;
  made.a = std::move(a);
  made.b = std::move(b);
  made.c = std::move(c);
  uint64_t size = op == Expr::Op::kRelu ? 2 : 1;  // as steps of `map`
  for (const ExprPtr& part : {made.a, made.b, made.c}) size += part == nullptr ? 0 : part->size;
  made.size = static_cast<uint32_t>(std::min<uint64_t>(size, UINT32_MAX));
  return std::make_shared<const Expr>(std::move(made));
}

namespace {

// Shared parts stay shared.
ExprPtr replaced(const ExprPtr& f, const std::vector<ExprPtr>& numbers,
                 std::map<const Expr*, ExprPtr>& done) {
  if (f == nullptr || f->op == Expr::Op::kConst) return f;
  if (f->op == Expr::Op::kX) return numbers.at(static_cast<size_t>(f->value));
  const auto found = done.find(f.get());
  if (found != done.end()) return found->second;
  const ExprPtr a = replaced(f->a, numbers, done);
  const ExprPtr b = replaced(f->b, numbers, done);
  return done[f.get()] = expr(f->op, a, b, replaced(f->c, numbers, done));
}

}  // namespace

ExprPtr substitute(const ExprPtr& f, const std::vector<ExprPtr>& numbers) {
  std::map<const Expr*, ExprPtr> done;
  return replaced(f, numbers, done);
}

double evaluate(const Expr& e, double x) {
  using Op = Expr::Op;
  if (e.op == Op::kX) return x;
  if (e.op == Op::kConst) return e.value;
  const double a = evaluate(*e.a, x);
  const double b = e.b == nullptr ? 0 : evaluate(*e.b, x);
  switch (e.op) {
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kDiv:
      return a / b;
    case Op::kPow:
      return std::pow(a, b);
    case Op::kMin:
      return std::min(a, b);
    case Op::kMax:
      return std::max(a, b);
    case Op::kNeg:
      return -a;
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kExp:
      return std::exp(a);
    case Op::kLog:
      return std::log(a);
    case Op::kTanh:
      return std::tanh(a);
    case Op::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case Op::kErf:
      return std::erf(a);
    case Op::kAbs:
      return std::abs(a);
    case Op::kRecip:
      return 1 / a;
    case Op::kRelu:
      return a > 0 ? a : 0;
    case Op::kRound:
      return std::nearbyint(a);
    case Op::kFloor:
      return std::floor(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kCos:
      return std::cos(a);
    case Op::kCeil:
      return std::ceil(a);
    case Op::kLess:
      return a < b ? 1 : 0;
    case Op::kEqual:
      return a == b ? 1 : 0;
    case Op::kWhere:
      return a != 0 ? b : evaluate(*e.c, x);
    default:
      return a;
  }
}

}  // namespace kvern::passes::token_form
