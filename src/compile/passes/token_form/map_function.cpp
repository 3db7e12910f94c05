// Functions of numbers as programs of `map`.
#include <algorithm>

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
      {Op::kSin, MapOp::kSin},     {Op::kCos, MapOp::kCos},         {Op::kCeil, MapOp::kCeil},
      {Op::kLess, MapOp::kLess},   {Op::kEqual, MapOp::kEqual},     {Op::kWhere, MapOp::kWhere},
  };
  for (const auto& [from, to] : kOps) {
    if (from == op) return to;
  }
  return std::nullopt;
}

// Writes programs; what lies on the stack already is copied instead of computed again.
class Writer {
 public:
  bool write(const Expr& f) {
    if (program_.size() > kMaxMapSteps) return false;
    if (f.op == Op::kX) return push({MapOp::kInput, static_cast<int32_t>(f.value), 0}, f);
    if (f.op == Op::kConst) return push({MapOp::kConstant, 0, f.value}, f);
    const auto same = std::find(stack_.rbegin(), stack_.rend(), &f);
    if (same != stack_.rend()) return copy(static_cast<int32_t>(same - stack_.rbegin()), f);
    const size_t below = stack_.size();
    if (f.a == nullptr || !write(*f.a)) return false;
    if (f.op == Op::kRelu) {
      program_.push_back({MapOp::kConstant, 0, 0.0});
      program_.push_back({MapOp::kMax, 0, 0});
    } else {
      if (f.b != nullptr && f.b == f.a) {
        copy(0, *f.b);
      } else if (f.b != nullptr && !write(*f.b)) {
        return false;
      }
      if (f.c != nullptr && !write(*f.c)) return false;
      const std::optional<MapOp> op = map_op(f.op);
      if (!op) return false;
      program_.push_back({*op, 0, 0});
    }
    stack_.resize(below);
    stack_.push_back(&f);
    return true;
  }
  const MapProgram& program() const { return program_; }

 private:
  bool push(const MapStep& step, const Expr& f) {
    program_.push_back(step);
    stack_.push_back(&f);
    return true;
  }
  bool copy(int32_t below, const Expr& f) { return push({MapOp::kCopy, below, 0}, f); }

  MapProgram program_;
  std::vector<const Expr*> stack_;
};

}  // namespace

std::optional<std::string> map_text(const Expr& f, int num_inputs) {
  Writer writer;
  if (!writer.write(f) || !map_problem(writer.program(), num_inputs).empty()) return std::nullopt;
  return to_text(writer.program());
}

}  // namespace kvern::passes::token_form
