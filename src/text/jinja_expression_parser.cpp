#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "text/jinja_builtin.h"
#include "text/jinja_parser.h"

namespace kvern::text::jinja {
namespace {

// Whether a token can start the one argument that a test takes without parentheses.
bool starts_test_argument(const Token& token) {
  if (token.kind == TokenKind::kName) {
    return token.text != "else" && token.text != "or" && token.text != "and" &&
           token.text != "is" && token.text != "if" && token.text != "in" && token.text != "not";
  }
  if (token.kind == TokenKind::kOperator) return token.text == "[" || token.text == "{";
  return token.kind == TokenKind::kString || token.kind == TokenKind::kInteger ||
         token.kind == TokenKind::kReal;
}

}  // namespace

ExpressionPtr ExpressionParser::make(ExpressionKind kind, std::string text) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = peek().line;
  node->text = std::move(text);
  return node;
}

void ExpressionParser::add_child(Expression& parent, ExpressionPtr child) {
  if (child) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > max_depth_) {
      syntax_error(parent.line, fmt::format("an expression is nested deeper than {}", max_depth_));
    }
  }
  parent.children.push_back(std::move(child));
}

ExpressionPtr ExpressionParser::binary(std::string text, ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr node = make(ExpressionKind::kBinary, std::move(text));
  add_child(*node, std::move(left));
  add_child(*node, std::move(right));
  return node;
}

ExpressionPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  ExpressionPtr value = or_expression();
  while (take_name("if")) {
    ExpressionPtr node = make(ExpressionKind::kConditional);
    add_child(*node, or_expression());
    add_child(*node, std::move(value));
    if (take_name("else")) add_child(*node, expression());
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::tuple_of(ExpressionPtr (ExpressionParser::*item)()) {
  ExpressionPtr first = (this->*item)();
  if (!at_operator(",")) return first;
  ExpressionPtr node = make(ExpressionKind::kTuple);
  add_child(*node, std::move(first));
  while (take_operator(",")) {
    const TokenKind kind = peek().kind;
    if (kind == TokenKind::kBlockEnd || kind == TokenKind::kPrintEnd) break;
    add_child(*node, (this->*item)());
  }
  return node;
}

ExpressionPtr ExpressionParser::or_expression() {
  ExpressionPtr left = and_expression();
  while (take_name("or")) left = binary("or", std::move(left), and_expression());
  return left;
}

ExpressionPtr ExpressionParser::and_expression() {
  ExpressionPtr left = not_expression();
  while (take_name("and")) left = binary("and", std::move(left), not_expression());
  return left;
}

ExpressionPtr ExpressionParser::not_expression() {
  if (!at_name("not")) return comparison();
  const Nesting nesting(*this);
  ExpressionPtr node = make(ExpressionKind::kUnary, "not");
  take();
  add_child(*node, not_expression());
  return node;
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node;
  while (true) {
    std::string op;
    const std::string& text = peek().text;
    if (peek().kind == TokenKind::kOperator && (text == "==" || text == "!=" || text == "<" ||
                                                text == ">" || text == "<=" || text == ">=")) {
      op = take().text;
    } else if (take_name("in")) {
      op = "in";
    } else if (at_name("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in") {
      take();
      take();
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExpressionKind::kCompare);
      add_child(*node, std::move(first));
    }
    node->operators.push_back(std::move(op));
    add_child(*node, sum());
  }
  return node ? std::move(node) : std::move(first);
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (at_operator("+") || at_operator("-")) {
    std::string op = take().text;
    left = binary(std::move(op), std::move(left), concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  ExpressionPtr left = product();
  while (take_operator("~")) left = binary("~", std::move(left), product());
  return left;
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    std::string op = take().text;
    left = binary(std::move(op), std::move(left), power());
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (take_operator("**")) left = binary("**", std::move(left), unary(true));
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  ExpressionPtr value;
  if (at_operator("-") || at_operator("+")) {
    const Nesting nesting(*this);
    value = make(ExpressionKind::kUnary, take().text);
    add_child(*value, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::constant_name(const std::string& name) {
  ExpressionPtr node = make(ExpressionKind::kConstant);
  if (name == "true" || name == "True") {
    node->constant = Value(true);
  } else if (name == "false" || name == "False") {
    node->constant = Value(false);
  } else if (name == "none" || name == "None") {
    node->constant = Value(None{});
  } else {
    node->kind = ExpressionKind::kName;
    node->text = name;
    if (name == "caller") uses_ |= kUsesCaller;
    if (name == "varargs") uses_ |= kUsesVarargs;
    if (name == "kwargs") uses_ |= kUsesKwargs;
  }
  return node;
}

ExpressionPtr ExpressionParser::primary() {
  const Token token = peek();
  if (take_operator("(")) {
    if (take_operator(")")) return make(ExpressionKind::kTuple);
    ExpressionPtr first = expression();
    if (!at_operator(",")) {
      expect_operator(")");
      return first;
    }
    ExpressionPtr node = make(ExpressionKind::kTuple);
    add_child(*node, std::move(first));
    while (take_operator(",") && !at_operator(")")) add_child(*node, expression());
    expect_operator(")");
    return node;
  }
  if (take_operator("[")) return list("]");
  if (take_operator("{")) return dict();
  ExpressionPtr node = make(ExpressionKind::kConstant);
  switch (token.kind) {
    case TokenKind::kName:
      return constant_name(take().text);
    case TokenKind::kString: {
      std::string text;
      while (peek().kind == TokenKind::kString) text += take().text;  // 'a' 'b' is 'ab'
      node->constant = Value::constant(std::move(text));
      return node;
    }
    case TokenKind::kInteger: {
      int64_t value = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc{}) {
        syntax_error(token.line, fmt::format("the number {} is too large", token.text));
      }
      take();
      node->constant = Value(value);
      return node;
    }
    case TokenKind::kReal: {
      double value = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      take();
      node->constant = Value(value);
      return node;
    }
    default:
      unexpected("a value");
  }
}

ExpressionPtr ExpressionParser::list(std::string_view end) {
  ExpressionPtr node = make(ExpressionKind::kList);
  while (!at_operator(end)) {
    add_child(*node, expression());
    if (!take_operator(",")) break;
  }
  expect_operator(end);
  return node;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr node = make(ExpressionKind::kDict);
  while (!at_operator("}")) {
    add_child(*node, expression());
    expect_operator(":");
    add_child(*node, expression());
    if (!take_operator(",")) break;
  }
  expect_operator("}");
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  while (true) {
    if (take_operator(".")) {
      ExpressionPtr node = make(ExpressionKind::kAttribute);
      if (peek().kind != TokenKind::kName && peek().kind != TokenKind::kInteger) {
        unexpected("a name after '.'");
      }
      node->text = take().text;
      add_child(*node, std::move(value));
      value = std::move(node);
    } else if (take_operator("[")) {
      value = subscript(std::move(value));
    } else if (at_operator("(")) {
      ExpressionPtr node = make(ExpressionKind::kCall);
      add_child(*node, std::move(value));
      arguments(*node);
      value = std::move(node);
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  ExpressionPtr node = make(ExpressionKind::kSubscript);
  add_child(*node, std::move(value));
  ExpressionPtr first = at_operator(":") ? nullptr : expression();
  add_child(*node, std::move(first));
  if (at_operator(":")) {
    node->kind = ExpressionKind::kSlice;
    while (node->children.size() < 4) {
      const bool more = take_operator(":") && !at_operator(":") && !at_operator("]");
      add_child(*node, more ? expression() : nullptr);
    }
  }
  expect_operator("]");
  return node;
}

void ExpressionParser::arguments(Expression& call) {
  expect_operator("(");
  while (!at_operator(")")) {
    argument(call);
    if (!take_operator(",")) break;
  }
  expect_operator(")");
}

void ExpressionParser::argument(Expression& call) {
  const auto add_named = [&](std::string name, ExpressionPtr value) {
    call.depth = std::max(call.depth, value->depth + 1);
    call.named.emplace_back(Value::constant(std::move(name)), std::move(value));
  };
  const bool named = peek().kind == TokenKind::kName && peek(1).kind == TokenKind::kOperator &&
                     peek(1).text == "=";
  if (named) {
    std::string name = take().text;
    take();
    add_named(std::move(name), expression());
  } else if (take_operator("**")) {
    add_named("**", expression());
  } else if (take_operator("*")) {
    ExpressionPtr node = make(ExpressionKind::kUnpack);
    add_child(*node, expression());
    add_child(call, std::move(node));
  } else {
    if (!call.named.empty()) unexpected("a named argument");
    add_child(call, expression());
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (at_operator("|")) {
      take();
      value = filter(std::move(value));
    } else if (at_name("is")) {
      value = test(std::move(value));
    } else if (at_operator("(") || at_operator("[") || at_operator(".")) {
      value = postfix(std::move(value));  // of a filter's result
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::filter_chain(ExpressionPtr input) {
  input = filter(std::move(input));
  while (take_operator("|")) input = filter(std::move(input));
  return input;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  ExpressionPtr node = make(ExpressionKind::kFilter);
  node->text = expect_name("a filter's name");
  node->builtin = find_filter(node->text);
  add_child(*node, std::move(input));
  if (at_operator("(")) arguments(*node);
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  ExpressionPtr node = make(ExpressionKind::kTest);
  take();  // is
  const bool negated = take_name("not");
  node->text = expect_name("a test's name");
  node->builtin = find_test(node->text);
  add_child(*node, std::move(input));
  if (at_operator("(")) {
    arguments(*node);
  } else if (starts_test_argument(peek())) {
    add_child(*node, postfix(primary()));
  }
  if (!negated) return node;
  ExpressionPtr inverse = make(ExpressionKind::kUnary, "not");
  add_child(*inverse, std::move(node));
  return inverse;
}

}  // namespace kvern::text::jinja
