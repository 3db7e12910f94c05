#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_interpreter.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

[[noreturn]] void mismatch(const Context& context, const std::string& op, const Value& left,
                           const Value& right) {
  const auto named = [](const Value& value) {
    return value.undefined() ? fmt::format("undefined ('{}')", value.undefined_name())
                             : std::string(value.type_name());
  };
  context.fail(fmt::format("'{}' does not work on {} and {}", op, named(left), named(right)));
}

Value integer_arithmetic(const Context& context, const std::string& op, int64_t a, int64_t b) {
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
  if (op == "**") {
    result = 1;
    for (int64_t i = 0; i < b && !overflow && i < 64; ++i) {
      overflow = __builtin_mul_overflow(result, a, &result);
    }
    if (b >= 64 && a != 0 && a != 1) overflow = true;
  }
  if (overflow) context.fail(fmt::format("the result of '{}' is too large", op));
  return Value(result);
}

Value arithmetic(const Context& context, const std::string& op, const Value& left,
                 const Value& right) {
  const bool real = left.real() || right.real() || op == "/" ||
                    (op == "**" && right.number() && right.as_real() < 0);
  if (!real) return integer_arithmetic(context, op, left.as_integer(), right.as_integer());
  const double a = left.as_real();
  const double b = right.as_real();
  if ((op == "/" || op == "//" || op == "%") && b == 0) context.fail("division by zero");
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  if (op == "%") return Value(a - std::floor(a / b) * b);
  return Value(std::pow(a, b));
}

Value repeated(Context& context, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = value.string() ? value.string()->size() : value.list()->items.size();
  if (size > 0 && times > context.max_string_bytes() / static_cast<int64_t>(size)) {
    context.fail("a repetition grows beyond the limit");
  }
  context.step(static_cast<uint64_t>(times));
  if (value.string()) {
    context.charge(size * static_cast<size_t>(times));
    std::string text;
    for (int64_t i = 0; i < times; ++i) text += *value.string();
    return Value(std::move(text));
  }
  context.charge(size * static_cast<size_t>(times) * sizeof(Value));
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) {
    items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  }
  return Value::list(context, std::move(items));
}

}  // namespace

Value Interpreter::evaluate(const Expression& expression) {
  const Context::Level level(context_);
  context_.step();
  context_.set_line(expression.line);
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return name(expression.text);
    case ExpressionKind::kList:
      return Value::list(context_, arguments(expression).positional);
    case ExpressionKind::kTuple:
      return Value::tuple(context_, arguments(expression).positional);
    case ExpressionKind::kDict:
      return dict(expression);
    case ExpressionKind::kUnary:
      return unary(expression);
    case ExpressionKind::kBinary:
      return binary(expression);
    case ExpressionKind::kCompare:
      return comparison(expression);
    case ExpressionKind::kConditional:
      if (evaluate(*expression.children[0]).truthy()) return evaluate(*expression.children[1]);
      if (expression.children.size() == 2) return Value(Undefined{"the missing else"});
      return evaluate(*expression.children[2]);
    case ExpressionKind::kAttribute:
      return attribute(context_, evaluate(*expression.children[0]), expression.text);
    case ExpressionKind::kSubscript: {
      const Value object = evaluate(*expression.children[0]);
      return subscript(context_, object, evaluate(*expression.children[1]));
    }
    case ExpressionKind::kSlice:
      return slice(expression);
    case ExpressionKind::kCall:
      return call_expression(expression);
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest: {
      const Value input = evaluate(*expression.children[0]);
      return call(context_, known_builtin(expression), input, arguments(expression));
    }
  }
  return {};
}

Value Interpreter::dict(const Expression& expression) {
  std::vector<std::pair<std::string, Value>> entries;
  for (size_t i = 0; i < expression.children.size(); i += 2) {
    const Value key = evaluate(*expression.children[i]);
    if (!key.string()) context_.unsupported(fmt::format("a dict key of type {}", key.type_name()));
    Value value = evaluate(*expression.children[i + 1]);
    context_.step_search(entries.size(), key.string()->size());
    const auto existing = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.first == *key.string();
    });
    if (existing != entries.end()) {
      existing->second = std::move(value);
    } else {
      entries.emplace_back(*key.string(), std::move(value));
    }
  }
  return Value::dict(context_, std::move(entries));
}

Value Interpreter::name(const std::string& wanted) const {
  size_t num_names = 0;
  for (const Scope& scope : scopes_) num_names += scope.size();
  context_.step_search(num_names + scopes_.size(), wanted.size());
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const auto& [name, value] : *scope) {
      if (name == wanted) return value;
    }
  }
  if (const Builtin* function = find_function(wanted)) return Value(Function{function});
  return Value(Undefined{wanted});
}

const Builtin& Interpreter::known_builtin(const Expression& expression) const {
  if (expression.builtin) return *expression.builtin;
  const bool filter = expression.kind == ExpressionKind::kFilter;
  context_.unsupported(fmt::format("the {} '{}'", filter ? "filter" : "test", expression.text));
}

Value Interpreter::unary(const Expression& expression) {
  const Value value = evaluate(*expression.children[0]);
  if (expression.text == "not") return Value(!value.truthy());
  if (!value.number()) {
    context_.fail(fmt::format("'{}' does not work on {}", expression.text, value.type_name()));
  }
  if (expression.text == "+") return value;
  if (value.real()) return Value(-*value.real());
  return integer_arithmetic(context_, "-", 0, value.as_integer());
}

Value Interpreter::binary(const Expression& expression) {
  const std::string& op = expression.text;
  const Value left = evaluate(*expression.children[0]);
  if (op == "and" && !left.truthy()) return left;
  if (op == "or" && left.truthy()) return left;
  const Value right = evaluate(*expression.children[1]);
  if (op == "and" || op == "or") return right;
  context_.set_line(expression.line);
  if (op == "~" || (op == "+" && left.string() && right.string())) {
    std::string text = to_string(context_, left) + to_string(context_, right);
    context_.charge(text.size());
    return Value(std::move(text));
  }
  if (left.number() && right.number()) return arithmetic(context_, op, left, right);
  if (op == "+" && left.list() && right.list()) {
    std::vector<Value> items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    context_.step(items.size() / 8);
    return Value::list(context_, std::move(items));
  }
  const bool countable = right.number() && !right.real();
  if (op == "*" && countable && (left.string() || left.list())) {
    return repeated(context_, left, right.as_integer());
  }
  if (op == "%" && left.string()) context_.unsupported("formatting with '%'");
  mismatch(context_, op, left, right);
}

Value Interpreter::comparison(const Expression& expression) {
  Value left = evaluate(*expression.children[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.children[i + 1]);
    if (!compare(expression.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Interpreter::compare(const std::string& op, const Value& left, const Value& right) {
  if (op == "==") return equal(context_, left, right);
  if (op == "!=") return !equal(context_, left, right);
  if (op == "in") return contains(right, left);
  if (op == "not in") return !contains(right, left);
  if (op == "<") return less(context_, left, right);
  if (op == ">") return less(context_, right, left);
  if (op == "<=") return less(context_, left, right) || equal(context_, left, right);
  return less(context_, right, left) || equal(context_, left, right);
}

bool Interpreter::contains(const Value& container, const Value& item) {
  if (container.string()) {
    const std::string& needle = need_string(context_, item, "'in' over a string");
    return find_text(context_, *container.string(), needle, 0) != std::string::npos;
  }
  if (container.dict()) {
    return item.string() && container.dict()->find(context_, *item.string()) != nullptr;
  }
  if (container.list()) {
    return std::any_of(container.list()->items.begin(), container.list()->items.end(),
                       [&](const Value& other) { return equal(context_, item, other); });
  }
  if (container.undefined()) return false;
  context_.fail(fmt::format("'in' does not work on {}", container.type_name()));
}

Value Interpreter::slice(const Expression& expression) {
  const Value object = evaluate(*expression.children[0]);
  if (!object.list() && !object.string()) {
    context_.fail(fmt::format("a {} cannot be sliced", object.type_name()));
  }
  std::vector<uint32_t> starts;  // of a string's characters
  if (object.string()) {
    context_.charge(object.string()->size() * sizeof(uint32_t));
    starts = character_starts(*object.string());
  }
  const size_t num_items = object.list() ? object.list()->items.size() : starts.size() - 1;
  context_.step(num_items / 8);
  const auto size = static_cast<int64_t>(num_items);
  int64_t bounds[3];
  bool given[3];
  for (int i = 0; i < 3; ++i) {
    const Expression* part = expression.children[static_cast<size_t>(i) + 1].get();
    const Value value = part ? evaluate(*part) : Value(None{});
    given[i] = !value.none();
    if (given[i] && (!value.number() || value.real())) context_.fail("a slice needs integers");
    bounds[i] = given[i] ? value.as_integer() : 0;
  }
  const int64_t step = given[2] ? std::clamp<int64_t>(bounds[2], -size - 1, size + 1) : 1;
  if (step == 0) context_.fail("a slice's step cannot be 0");
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](int64_t i) {
    return std::clamp(i < 0 ? std::max(i, -size - 1) + size : i, low, high);
  };
  const int64_t start = given[0] ? place(bounds[0]) : step > 0 ? low : high;
  const int64_t stop = given[1] ? place(bounds[1]) : step > 0 ? high : low;
  std::vector<Value> items;
  std::string text;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (object.list()) {
      items.push_back(object.list()->items[i]);
    } else {
      text.append(*object.string(), starts[i], starts[i + 1] - starts[i]);
    }
  }
  return object.list() ? Value::list(context_, std::move(items)) : Value(std::move(text));
}

Arguments Interpreter::arguments(const Expression& expression) {
  Arguments out;
  // A list is all items; calls, filters and tests have their callee or input first.
  const size_t first =
      expression.kind == ExpressionKind::kList || expression.kind == ExpressionKind::kTuple ? 0 : 1;
  for (size_t i = first; i < expression.children.size(); ++i) {
    out.positional.push_back(evaluate(*expression.children[i]));
  }
  for (const auto& [name, value] : expression.named) {
    out.named.emplace_back(name, evaluate(*value));
  }
  return out;
}

Value Interpreter::call_expression(const Expression& expression) {
  const Value callee = evaluate(*expression.children[0]);
  const Arguments given = arguments(expression);
  context_.set_line(expression.line);
  if (callee.function()) return call(context_, *callee.function()->builtin, Value(), given);
  if (callee.method()) {
    return call(context_, *callee.method()->builtin, *callee.method()->receiver, given);
  }
  if (callee.macro()) return call_macro(*callee.macro()->statement, given);
  if (callee.undefined()) {
    context_.unsupported(fmt::format("calling '{}', which is undefined,", callee.undefined_name()));
  }
  context_.fail(fmt::format("a {} cannot be called", callee.type_name()));
}

}  // namespace kvern::text::jinja
