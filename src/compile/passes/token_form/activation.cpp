#include "compile/passes/token_form/activation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compile/passes/token_form/combine.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

namespace ops = ir::ops;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

struct Candidate {
  const ir::OpSchema* op;
  double (*value)(double x);
  const char* name;
};

const Candidate kCandidates[] = {
    {&ops::kSilu, [](double x) { return x * sigmoid(x); }, "silu"},
    {&ops::kGeluTanh, gelu_tanh, "gelu"},
    {&ops::kGeluErf, [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); },
     "gelu"},
    {&ops::kRelu, [](double x) { return x > 0 ? x : 0; }, "relu"},
    {&ops::kQuickGelu, [](double x) { return x * sigmoid(1.702 * x); }, "quick_gelu"},
    {&ops::kTanh, [](double x) { return std::tanh(x); }, "tanh"},
    {&ops::kSigmoid, sigmoid, "sigmoid"},
};

// Where functions are compared first; constants of files are f32.
constexpr double kPoints[] = {-9.0, -4.5, -3.1, -2.0, -1.3, -0.7, -0.31, -0.05,
                              0.0,  0.04, 0.4,  0.9,  1.7,  2.6,  4.2,   8.5};
constexpr double kFarthest = 3e38;  // of f32

void constants_of(const Expr& f, std::vector<double>& out) {
  if (f.op == Expr::Op::kConst) out.push_back(f.value);
  if (f.a != nullptr) constants_of(*f.a, out);
  if (f.b != nullptr) constants_of(*f.b, out);
  if (f.c != nullptr) constants_of(*f.c, out);
}

// Where functions that agree at kPoints may still part: at bounds (of a clip to [-20, 20], say),
// which the constants tell, and anywhere that f32 reaches.
std::vector<double> more_points(const Expr& f) {
  std::vector<double> sizes, out;
  constants_of(f, sizes);
  for (double& c : sizes) c = std::abs(c);
  const size_t num_constants = sizes.size();
  for (size_t i = 0; i < num_constants; ++i) {
    for (const double by : {0.5, 0.99, 1.01, 1.5, 2.0}) sizes.push_back(by * sizes[i]);
  }
  for (double at = 1e-4; at < kFarthest; at *= 1.1) sizes.push_back(at);
  for (const double size : sizes) {
    if (size <= kFarthest) out.insert(out.end(), {-size, size});
  }
  return out;
}

template <class F>
bool same_values(const Expr& f, const F& candidate) {
  const auto same = [&](double x) {
    const double a = evaluate(f, x);
    const double b = candidate(x);
    return std::abs(a - b) <= 2e-6 + 2e-6 * std::abs(b);
  };
  if (!std::all_of(std::begin(kPoints), std::end(kPoints), same)) return false;
  const std::vector<double> more = more_points(f);
  return std::all_of(more.begin(), more.end(), same);
}

}  // namespace

ir::ValueId write_function(Walk& walk, const Expr& f, ir::ValueId x) {
  for (const Candidate& candidate : kCandidates) {
    if (same_values(f, candidate.value)) return walk.emit.add(*candidate.op, {x}, candidate.name);
  }
  if (same_values(f, [](double v) { return v; })) return x;
  std::vector<double> constants;
  constants_of(f, constants);
  for (double c : constants) {
    if (!(c > 0)) continue;
    if (!same_values(f, [&](double v) { return c * std::tanh(v / c); })) continue;
    const ir::FactorAttrs by{static_cast<float>(c)};
    return walk.emit.add(ops::kSoftcap, {x}, ir::Attrs::of(by), "softcap");
  }
  const std::optional<std::string> program = map_text(f);
  if (!program) throw Error(Code::kUnsupported, fmt::format("onnx: {}", kNoMap));
  return walk.emit.add(ops::kMap, {x}, ir::Attrs::of(ir::MapAttrs{*program}), "map");
}

ir::ValueId vector_map(Walk& walk, ir::ValueId x, VectorOp op, ir::ValueId vector) {
  const ir::MapAttrs program{op == VectorOp::kAdd ? "x0 x1 add" : "x0 x1 mul"};
  return walk.emit.add(ops::kMap, {x, vector}, ir::Attrs::of(program), "map");
}

}  // namespace kvern::passes::token_form
