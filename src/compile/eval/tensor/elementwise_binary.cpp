// Ops of two operands, with broadcasting. Half precision is computed in f32 and rounded once.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/eval_ops.h"

namespace kvern::eval {
namespace {

[[noreturn]] void refuse_type(const OpCall& call, const Array& x) {
  call.unsupported(fmt::format("{} elements", ir::element_type_name(x.type())));
}

void require_same_type(const OpCall& call, const Array& a, const Array& b) {
  if (a.type() != b.type()) {
    call.fail(fmt::format("operands are {} and {}; equal types are wanted",
                          ir::element_type_name(a.type()), ir::element_type_name(b.type())));
  }
}

template <class T>
void refuse_zero_divisor(const OpCall& call, const Array& divisor) {
  if constexpr (std::is_integral_v<T>) {
    for (const T value : divisor.as<T>()) {
      if (value == 0) call.fail("an integer is divided by zero");
    }
  }
}

template <class T>
T divided(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    // The smallest integer by -1 overflows.
    if (b == -1) return wrapping<T>(0, a, [](auto x, auto y) { return x - y; });
  }
  return a / b;
}

template <class T>
T remainder_of(T a, T b, bool sign_of_dividend) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    if (sign_of_dividend || rest == 0) return rest;
    return (rest < 0) != (b < 0) ? rest + b : rest;
  } else {
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    const T rest = a % b;
    if (sign_of_dividend || rest == 0) return rest;
    return (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
}

template <class T, class E>
T power(T base, E exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) {
    if (exponent < 0) {
      return static_cast<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    T result = 1;
    for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
      if (e & 1) result = wrapping(result, base, [](auto x, auto y) { return x * y; });
      base = wrapping(base, base, [](auto x, auto y) { return x * y; });
    }
    return result;
  } else if constexpr (std::is_same_v<T, float> && std::is_same_v<E, float>) {
    return std::pow(base, exponent);
  } else {
    const double result = std::pow(static_cast<double>(base), static_cast<double>(exponent));
    if constexpr (std::is_integral_v<T>) {
      // Outside of T the conversion would be undefined.
      if (!(result >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
            result < static_cast<double>(std::numeric_limits<T>::max()))) {
        return std::numeric_limits<T>::lowest();
      }
    }
    return static_cast<T>(result);
  }
}

// x^2, x^3 and x^0.5 with one exponent for all: what norms and GELU write.
bool simple_power(const Array& base, const Array& exponent, Array* out) {
  if (exponent.count() != 1 || exponent.rank() > base.rank()) return false;
  const Array wide = widened(exponent);
  if (base.type() != ElementType::kFloat || !ir::is_float(wide.type())) return false;
  const double e = wide.to_f64()[0];
  const auto map = [&](auto fn) {
    *out = map_elements<float, float>(base, base.type(), fn);
    return true;
  };
  if (e == 2) return map([](float x) { return x * x; });
  if (e == 3) return map([](float x) { return x * x * x; });
  if (e == 0.5) return map([](float x) { return std::sqrt(x); });
  return false;
}

}  // namespace

Arrays eval_arithmetic(const OpCall& call) {
  require_same_type(call, call.in(0), call.in(1));
  const ElementType type = call.in(0).type();
  const Array a = widened(call.in(0));
  const Array b = widened(call.in(1));
  const std::string& op = call.node.op;
  Array out;
  const bool known = visit_number(a.type(), [&]<class T>(T) {
    const auto run = [&](auto fn) { out = combine<T, T, T>(call, a, b, a.type(), fn); };
    if (op == "Add") {
      run([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p + q; }); });
    } else if (op == "Sub") {
      run([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p - q; }); });
    } else if (op == "Mul") {
      run([](T x, T y) { return wrapping(x, y, [](auto p, auto q) { return p * q; }); });
    } else {
      refuse_zero_divisor<T>(call, b);
      run([](T x, T y) { return divided(x, y); });
    }
  });
  if (!known) refuse_type(call, call.in(0));
  return {narrowed(out, type)};
}

Arrays eval_mod(const OpCall& call) {
  require_same_type(call, call.in(0), call.in(1));
  const ElementType type = call.in(0).type();
  const Array a = widened(call.in(0));
  const Array b = widened(call.in(1));
  const bool fmod = call.node.i("fmod", 0) != 0;
  Array out;
  const bool known = visit_number(a.type(), [&]<class T>(T) {
    refuse_zero_divisor<T>(call, b);
    out = combine<T, T, T>(call, a, b, a.type(),
                           [fmod](T x, T y) { return remainder_of(x, y, fmod); });
  });
  if (!known) refuse_type(call, call.in(0));
  return {narrowed(out, type)};
}

Arrays eval_pow(const OpCall& call) {
  const ElementType type = call.in(0).type();
  const Array a = widened(call.in(0));
  Array out;
  if (simple_power(a, call.in(1), &out)) return {narrowed(out, type)};
  Array b = widened(call.in(1));
  // Narrow exponents as int64, so that there are few pairs of types.
  if (ir::is_integer(b.type()) && b.type() != ElementType::kInt64) {
    b = Array::of<int64_t>(ElementType::kInt64, b.shape(), b.to_i64(int64_t{1} << 32));
  }
  const bool known = visit_number(a.type(), [&]<class T>(T) {
    const auto run = [&]<class E>(E) {
      out = combine<T, E, T>(call, a, b, a.type(), [](T x, E y) { return power(x, y); });
    };
    if (b.type() == ElementType::kInt64) {
      run(int64_t{});
    } else if (b.type() == ElementType::kDouble) {
      run(double{});
    } else if (b.type() == ElementType::kFloat) {
      run(float{});
    } else {
      refuse_type(call, b);
    }
  });
  if (!known) refuse_type(call, call.in(0));
  return {narrowed(out, type)};
}

Arrays eval_compare(const OpCall& call) {
  require_same_type(call, call.in(0), call.in(1));
  const Array a = widened(call.in(0));
  const Array b = widened(call.in(1));
  const std::string& op = call.node.op;
  Array out;
  const bool known = visit_number(a.type(), [&]<class T>(T) {
    const auto run = [&](auto fn) {
      out = combine<T, T, uint8_t>(call, a, b, ElementType::kBool, fn);
    };
    if (op == "Equal") {
      run([](T x, T y) -> uint8_t { return x == y; });
    } else if (op == "Less") {
      run([](T x, T y) -> uint8_t { return x < y; });
    } else if (op == "LessOrEqual") {
      run([](T x, T y) -> uint8_t { return x <= y; });
    } else if (op == "Greater") {
      run([](T x, T y) -> uint8_t { return x > y; });
    } else {
      run([](T x, T y) -> uint8_t { return x >= y; });
    }
  });
  if (!known) refuse_type(call, call.in(0));
  return {out};
}

Arrays eval_bits(const OpCall& call) {
  const Array& a = call.in(0);
  const Array& b = call.in(1);
  require_same_type(call, a, b);
  const std::string& op = call.node.op;
  const bool left = call.node.s("direction", "LEFT") == "LEFT";
  Array out;
  const bool known = visit_integer(a.type(), [&]<class T>(T) {
    using U = std::make_unsigned_t<T>;
    const auto run = [&](auto fn) { out = combine<T, T, T>(call, a, b, a.type(), fn); };
    if (op == "And" || op == "BitwiseAnd") {
      run([](T x, T y) { return static_cast<T>(x & y); });
    } else if (op == "Or" || op == "BitwiseOr") {
      run([](T x, T y) { return static_cast<T>(x | y); });
    } else if (op == "Xor" || op == "BitwiseXor") {
      run([](T x, T y) { return static_cast<T>(x ^ y); });
    } else {
      run([left](T x, T y) {
        const auto by = static_cast<uint64_t>(static_cast<U>(y));
        if (by >= sizeof(T) * 8) return T{0};
        const auto bits = static_cast<uint64_t>(static_cast<U>(x));
        return static_cast<T>(left ? bits << by : bits >> by);
      });
    }
  });
  if (!known) refuse_type(call, a);
  return {out};
}

Arrays eval_not(const OpCall& call) {
  const Array& x = call.in(0);
  Array out;
  const bool logical = x.type() == ElementType::kBool;
  const bool known = visit_integer(x.type(), [&]<class T>(T) {
    out = map_elements<T, T>(x, x.type(), [logical](T v) {
      return logical ? static_cast<T>(v == 0) : static_cast<T>(~v);
    });
  });
  if (!known) refuse_type(call, x);
  return {out};
}

}  // namespace kvern::eval
