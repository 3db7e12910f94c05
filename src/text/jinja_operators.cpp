// The operators of arithmetic, as Python has them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_builtin.h"

namespace kvern::text::jinja {
namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// Whether a ** b does not fit; b is not negative.
bool power_overflows(int64_t a, int64_t b, int64_t& result) {
  result = 1;
  if (a == 0 || a == 1) {
    result = b == 0 ? 1 : a;
    return false;
  }
  if (a == -1) {
    result = b % 2 == 0 ? 1 : -1;
    return false;
  }
  for (int64_t i = 0; i < b; ++i) {
    if (__builtin_mul_overflow(result, a, &result)) return true;  // by the 64th round
  }
  return false;
}

Value whole_arithmetic(const Context& context, const std::string& op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &result);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &result);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &result);
  if (op == "//" || op == "%") {
    if (b == 0) context.fail("division by zero");
    overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
    if (!overflow) result = op == "%" ? a - floor_divide(a, b) * b : floor_divide(a, b);
  }
  if (op == "**") overflow = power_overflows(a, b, result);
  if (overflow) context.fail(fmt::format("the result of '{}' is too large", op));
  return Value(result);
}

Value arithmetic(const Context& context, const std::string& op, const Value& left,
                 const Value& right) {
  const bool real = left.real() || right.real() || op == "/" || (op == "**" && right.as_real() < 0);
  if (!real) return whole_arithmetic(context, op, left.as_integer(), right.as_integer());
  const double a = left.as_real();
  const double b = right.as_real();
  if ((op == "/" || op == "//" || op == "%") && b == 0) context.fail("division by zero");
  if (op == "**" && a == 0 && b < 0) context.fail("division by zero");
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  if (op == "%") {
    const double rest = std::fmod(a, b);
    return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  }
  const double power = std::pow(a, b);
  if (!std::isfinite(power) && std::isfinite(a) && std::isfinite(b)) {
    context.fail("the result of '**' is no number or too large");
  }
  return Value(power);
}

Value repeated(Context& context, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = value.string() ? value.string()->size() : value.list()->items.size();
  if (size > 0 && times > context.max_string_bytes() / static_cast<int64_t>(size)) {
    context.fail("a repetition grows beyond the limit");
  }
  if (size == 0) times = 0;
  context.step(static_cast<uint64_t>(times));
  if (value.string()) {
    context.need(size * static_cast<size_t>(times));
    std::string text;
    for (int64_t i = 0; i < times; ++i) text += *value.string();
    return Value::text(context, std::move(text));
  }
  context.need(size * static_cast<size_t>(times) * sizeof(Value));
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) {
    items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  }
  return Value::list(context, std::move(items), value.list()->kind);
}

Value joined(Context& context, const Value& left, const Value& right) {
  std::string text = to_string(context, left);
  const std::string tail = to_string(context, right);
  context.need(text.size() + tail.size());
  text += tail;
  return Value::text(context, std::move(text));
}

bool repeatable(const Value& value) {
  return value.string() || (value.list() && !value.generator());
}

}  // namespace

Value operate(Context& context, const std::string& op, const Value& left, const Value& right) {
  if (op == "~" || (op == "+" && left.string() && right.string())) {
    return joined(context, left, right);
  }
  if (left.number() && right.number()) return arithmetic(context, op, left, right);
  if (op == "+" && left.list() && right.list() && left.list()->kind == right.list()->kind &&
      !left.generator()) {
    std::vector<Value> items = left.list()->items;
    context.need((items.size() + right.list()->items.size()) * sizeof(Value));
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return Value::list(context, std::move(items), left.list()->kind);
  }
  if (op == "*" && right.whole() && repeatable(left)) {
    return repeated(context, left, right.as_integer());
  }
  if (op == "*" && left.whole() && repeatable(right)) {
    return repeated(context, right, left.as_integer());
  }
  if (op == "%" && left.string()) {
    return Value::text(context, format_percent(context, *left.string(), right));
  }
  context.fail(
      fmt::format("'{}' does not work on {} and {}", op, left.description(), right.description()));
}

}  // namespace kvern::text::jinja
