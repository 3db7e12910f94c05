// Tokens to a tree. Two classes: expressions, and the statements built on them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_token_cursor.h"

namespace kvern::text::jinja {

class ExpressionParser : public TokenCursor {
 public:
  using TokenCursor::TokenCursor;

  ExpressionPtr expression();  // with `… if … else …`
  // Without the conditional form, whose `if` would eat a for loop's filter.
  ExpressionPtr or_expression();
  // An expression, or several with commas between them, which make a tuple.
  ExpressionPtr tuple() { return tuple_of(&ExpressionParser::expression); }
  ExpressionPtr plain_tuple() { return tuple_of(&ExpressionParser::or_expression); }
  // `name(args) | name …` without an input: the head of {% filter %}.
  ExpressionPtr filter_chain(ExpressionPtr input);

  // The names of MacroUse met since the last call, as bits.
  unsigned take_uses() { return std::exchange(uses_, 0U); }
  void add_uses(unsigned uses) { uses_ |= uses; }

 private:
  ExpressionPtr tuple_of(ExpressionPtr (ExpressionParser::*item)());
  ExpressionPtr make(ExpressionKind kind, std::string text = {});
  void add_child(Expression& parent, ExpressionPtr child);
  ExpressionPtr binary(std::string text, ExpressionPtr left, ExpressionPtr right);
  ExpressionPtr and_expression();
  ExpressionPtr not_expression();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr constant_name(const std::string& name);
  ExpressionPtr list(std::string_view end);
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  void arguments(Expression& call);
  void argument(Expression& call);

  unsigned uses_ = 0;
};

// Throws Error(kInvalidModel) for bad syntax, Error(kUnsupported) for a construct that is not ours.
Template parse(std::string_view source, int max_depth);

}  // namespace kvern::text::jinja
