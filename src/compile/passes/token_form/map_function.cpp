// Functions of one number as programs of `map`.
#include "compile/passes/token_form/activation.h"
#include "tensor/map_program.h"

namespace kvern::passes::token_form {
namespace {

using Op = Expr::Op;

std::optional<MapOp> map_op(Op op) {
  constexpr std::pair<Op, MapOp> kOps[] = {
      {Op::kAdd, MapOp::kAdd},     {Op::kSub, MapOp::kSub},         {Op::kMul, MapOp::kMul},
      {Op::kDiv, MapOp::kDiv},     {Op::kPow, MapOp::kPow},         {Op::kMin, MapOp::kMin},
      {Op::kMax, MapOp::kMax},     {Op::kNeg, MapOp::kNeg},         {Op::kSqrt, MapOp::kSqrt},
      {Op::kExp, MapOp::kExp},     {Op::kLog, MapOp::kLog},         {Op::kTanh, MapOp::kTanh},
      {Op::kErf, MapOp::kErf},     {Op::kSigmoid, MapOp::kSigmoid}, {Op::kAbs, MapOp::kAbs},
      {Op::kRecip, MapOp::kRecip}, {Op::kRound, MapOp::kRound},     {Op::kFloor, MapOp::kFloor},
      {Op::kSin, MapOp::kSin},     {Op::kCos, MapOp::kCos},
  };
  for (const auto& [from, to] : kOps) {
    if (from == op) return to;
  }
  return std::nullopt;
}

bool write(const Expr& f, MapProgram& out) {
  if (out.size() > kMaxMapSteps) return false;
  if (f.op == Op::kX) {
    out.push_back({MapOp::kInput, 0, 0});
    return true;
  }
  if (f.op == Op::kConst) {
    out.push_back({MapOp::kConstant, 0, f.value});
    return true;
  }
  if (f.a == nullptr || !write(*f.a, out)) return false;
  if (f.op == Op::kRelu) {
    out.push_back({MapOp::kConstant, 0, 0.0});
    out.push_back({MapOp::kMax, 0, 0});
    return true;
  }
  if (f.b != nullptr && f.b == f.a) {
    out.push_back({MapOp::kCopy, 0, 0});
  } else if (f.b != nullptr && !write(*f.b, out)) {
    return false;
  }
  const std::optional<MapOp> op = map_op(f.op);
  if (!op) return false;
  out.push_back({*op, 0, 0});
  return true;
}

}  // namespace

std::optional<std::string> map_text(const Expr& f) {
  MapProgram program;
  if (!write(f, program) || !map_problem(program, 1).empty()) return std::nullopt;
  return to_text(program);
}

}  // namespace kvern::passes::token_form
