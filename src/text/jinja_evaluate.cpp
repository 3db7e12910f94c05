#include <fmt/format.h>

#include "text/jinja_interpreter.h"

namespace kvern::text::jinja {

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
      if (expression.children.size() == 2) return Value::missing("the missing else");
      return evaluate(*expression.children[2]);
    case ExpressionKind::kAttribute:
      return attribute(context_, evaluate(*expression.children[0]), expression.text);
    case ExpressionKind::kSubscript: {
      const Value object = evaluate(*expression.children[0]);
      return subscript(context_, object, evaluate(*expression.children[1]));
    }
    case ExpressionKind::kSlice:
      return sliced(expression);
    case ExpressionKind::kCall:
      return call_expression(expression);
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest: {
      const Value input = evaluate(*expression.children[0]);
      const Arguments given = arguments(expression);
      context_.set_line(expression.line);
      return call(context_, known_builtin(expression), input, given);
    }
    case ExpressionKind::kUnpack:
      break;  // only among arguments, which know it
  }
  return {};
}

Value Interpreter::dict(const Expression& expression) {
  Entries entries;
  for (size_t i = 0; i < expression.children.size(); i += 2) {
    Value key = evaluate(*expression.children[i]);
    put(context_, entries, std::move(key), evaluate(*expression.children[i + 1]));
  }
  return Value::dict(context_, std::move(entries));
}

Value Interpreter::name(const std::string& wanted) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    context_.step_search(scope->names.size(), wanted.size());
    for (const auto& [name, value] : scope->names) {
      if (name == wanted) return value;
    }
  }
  if (const Builtin* function = find_function(wanted)) return Value(Function{function});
  return Value::missing(wanted);
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
    context_.fail(fmt::format("'{}' does not work on {}", expression.text, value.description()));
  }
  if (expression.text == "+") return value.real() ? value : Value(value.as_integer());
  if (value.real()) return Value(-*value.real());
  return operate(context_, "-", Value(int64_t{0}), value);
}

Value Interpreter::binary(const Expression& expression) {
  const std::string& op = expression.text;
  const Value left = evaluate(*expression.children[0]);
  if (op == "and" && !left.truthy()) return left;
  if (op == "or" && left.truthy()) return left;
  const Value right = evaluate(*expression.children[1]);
  if (op == "and" || op == "or") return right;
  context_.set_line(expression.line);
  return operate(context_, op, left, right);
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
  if (op == "in") return contains(context_, right, left);
  if (op == "not in") return !contains(context_, right, left);
  if (op == "<") return less(context_, left, right);
  if (op == ">") return less(context_, right, left);
  if (op == "<=") return less(context_, left, right) || equal(context_, left, right);
  return less(context_, right, left) || equal(context_, left, right);
}

Value Interpreter::sliced(const Expression& expression) {
  const Value object = evaluate(*expression.children[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const Expression* part = expression.children[i + 1].get();
    bounds[i] = part ? evaluate(*part) : Value(None{});
  }
  return slice(context_, object, {bounds[0], bounds[1], bounds[2]});
}

}  // namespace kvern::text::jinja
