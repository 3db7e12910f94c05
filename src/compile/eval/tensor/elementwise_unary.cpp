// Ops of one input. Half precision is computed in f32 and rounded once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/eval_ops.h"

namespace kvern::eval {
namespace {

template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

template <class T>
T gelu(T x, bool tanh_form) {
  if (tanh_form) {
    const T inner = static_cast<T>(0.7978845608028654) * (x + static_cast<T>(0.044715) * x * x * x);
    return static_cast<T>(0.5) * x * (T{1} + std::tanh(inner));
  }
  return static_cast<T>(0.5) * x * (T{1} + std::erf(x * static_cast<T>(0.7071067811865476)));
}

// What an op's attributes say, read once per node.
struct Parameters {
  double alpha, beta, gamma;
  bool tanh_form;
};

struct Default {
  std::string_view op;
  double alpha, beta, gamma;
};

constexpr Default kDefaults[] = {
    {"LeakyRelu", 0.01, 0, 0},
    {"Elu", 1, 0, 0},
    {"Celu", 1, 0, 0},
    {"Selu", 1.67326319217681884765625, 0, 1.05070102214813232421875},
    {"HardSigmoid", 0.2, 0.5, 0},
    {"Swish", 1, 0, 0},
    {"ThresholdedRelu", 1, 0, 0},
};

Parameters parameters_of(const TensorNode& node) {
  Default d{"", 1, 0, 1};
  for (const Default& each : kDefaults) {
    if (node.op == each.op) d = each;
  }
  return {node.f("alpha", d.alpha), node.f("beta", d.beta), node.f("gamma", d.gamma),
          node.op == "Gelu" && node.s("approximate", "none") == "tanh"};
}

using FloatFn = Array (*)(const Array& x, const Parameters& p);

// One op in f32 and f64. kOp is given the element and the parameters.
template <auto kOp>
Array apply(const Array& x, const Parameters& p) {
  if (x.type() == ElementType::kDouble) {
    return map_elements<double, double>(x, x.type(), [&](double v) { return kOp(v, p); });
  }
  return map_elements<float, float>(x, x.type(), [&](float v) { return kOp(v, p); });
}

template <class T>
T number(double value) {
  return static_cast<T>(value);
}

struct FloatOp {
  std::string_view name;
  FloatFn fn;
};

using P = Parameters;

constexpr FloatOp kFloatOps[] = {
    {"Sqrt", apply<[](auto x, const P&) { return std::sqrt(x); }>},
    {"Exp", apply<[](auto x, const P&) { return std::exp(x); }>},
    {"Log", apply<[](auto x, const P&) { return std::log(x); }>},
    {"Reciprocal", apply<[](auto x, const P&) { return 1 / x; }>},
    {"Erf", apply<[](auto x, const P&) { return std::erf(x); }>},
    {"Tanh", apply<[](auto x, const P&) { return std::tanh(x); }>},
    {"Sigmoid", apply<[](auto x, const P&) { return sigmoid(x); }>},
    {"Sin", apply<[](auto x, const P&) { return std::sin(x); }>},
    {"Cos", apply<[](auto x, const P&) { return std::cos(x); }>},
    {"Tan", apply<[](auto x, const P&) { return std::tan(x); }>},
    {"Asin", apply<[](auto x, const P&) { return std::asin(x); }>},
    {"Acos", apply<[](auto x, const P&) { return std::acos(x); }>},
    {"Atan", apply<[](auto x, const P&) { return std::atan(x); }>},
    {"Sinh", apply<[](auto x, const P&) { return std::sinh(x); }>},
    {"Cosh", apply<[](auto x, const P&) { return std::cosh(x); }>},
    {"Asinh", apply<[](auto x, const P&) { return std::asinh(x); }>},
    {"Acosh", apply<[](auto x, const P&) { return std::acosh(x); }>},
    {"Atanh", apply<[](auto x, const P&) { return std::atanh(x); }>},
    {"Ceil", apply<[](auto x, const P&) { return std::ceil(x); }>},
    {"Floor", apply<[](auto x, const P&) { return std::floor(x); }>},
    // Halves go to the even neighbour: the default rounding mode, which nothing here changes.
    {"Round", apply<[](auto x, const P&) { return std::nearbyint(x); }>},
    {"Softplus", apply<[](auto x, const P&) { return softplus(x); }>},
    {"Softsign", apply<[](auto x, const P&) { return x / (1 + std::abs(x)); }>},
    {"Mish", apply<[](auto x, const P&) { return x * std::tanh(softplus(x)); }>},
    {"Gelu", apply<[](auto x, const P& p) { return gelu(x, p.tanh_form); }>},
    {"Swish", apply<[]<class T>(T x, const P& p) { return x * sigmoid(number<T>(p.alpha) * x); }>},
    {"LeakyRelu",
     apply<[]<class T>(T x, const P& p) { return x < 0 ? number<T>(p.alpha) * x : x; }>},
    {"ThresholdedRelu",
     apply<[]<class T>(T x, const P& p) { return (x > number<T>(p.alpha)) ? x : T{0}; }>},
    {"Elu", apply<[]<class T>(T x, const P& p) {
       return x < 0 ? number<T>(p.alpha) * (std::exp(x) - 1) : x;
     }>},
    {"Celu", apply<[]<class T>(T x, const P& p) {
       const T alpha = number<T>(p.alpha);
       return std::max(T{0}, x) + std::min(T{0}, alpha * (std::exp(x / alpha) - 1));
     }>},
    {"Selu", apply<[]<class T>(T x, const P& p) {
       const T scaled = x <= 0 ? number<T>(p.alpha) * (std::exp(x) - 1) : x;
       return number<T>(p.gamma) * scaled;
     }>},
    {"HardSigmoid", apply<[]<class T>(T x, const P& p) {
       return std::max(T{0}, std::min(T{1}, number<T>(p.alpha) * x + number<T>(p.beta)));
     }>},
    {"HardSwish", apply<[]<class T>(T x, const P&) {
       return x * std::max(T{0}, std::min(T{1}, x / 6 + number<T>(0.5)));
     }>},
};

Array require_float(const OpCall& call, const Array& x) {
  if (!ir::is_float(x.type())) {
    call.fail(fmt::format("floats are wanted, got {}", ir::element_type_name(x.type())));
  }
  return widened(x);
}

}  // namespace

Arrays eval_float_unary(const OpCall& call) {
  const Array& x = call.in(0);
  for (const FloatOp& op : kFloatOps) {
    if (op.name == call.node.op) {
      return {narrowed(op.fn(require_float(call, x), parameters_of(call.node)), x.type())};
    }
  }
  call.unsupported("this op is in the op table only");
}

Arrays eval_sign_unary(const OpCall& call) {
  const Array& x = call.in(0);
  const Array wide = widened(x);
  const std::string& op = call.node.op;
  Array out;
  const bool known = visit_number(wide.type(), [&]<class T>(T) {
    const auto map = [&](auto fn) { out = map_elements<T, T>(wide, wide.type(), fn); };
    if (op == "Neg") {
      map([](T v) {
        if constexpr (std::is_integral_v<T>) {
          return wrapping<T>(0, v, [](auto a, auto b) { return a - b; });
        } else {
          return -v;
        }
      });
    } else if (op == "Abs") {
      map([](T v) {
        if constexpr (std::is_integral_v<T>) {
          return v < 0 ? wrapping<T>(0, v, [](auto a, auto b) { return a - b; }) : v;
        } else {
          return std::abs(v);
        }
      });
    } else if (op == "Sign") {
      map([](T v) { return v != v ? v : static_cast<T>((v > 0) - (v < 0)); });
    } else {
      map([](T v) { return v < 0 ? T{0} : v; });  // Relu; NaN stays
    }
  });
  if (!known) call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
  return {narrowed(out, x.type())};
}

Arrays eval_is_nan_or_inf(const OpCall& call) {
  const Array x = require_float(call, call.in(0));
  const bool nan = call.node.op == "IsNaN";
  const bool up = call.node.i("detect_positive", 1) != 0;
  const bool down = call.node.i("detect_negative", 1) != 0;
  Array out;
  visit_number(x.type(), [&]<class T>(T) {
    out = map_elements<T, uint8_t>(x, ElementType::kBool, [&](T v) -> uint8_t {
      if (nan) return v != v;
      if constexpr (std::is_integral_v<T>) {
        return 0;
      } else {
        return std::isinf(v) && (v > 0 ? up : down);
      }
    });
  });
  return {out};
}

}  // namespace kvern::eval
