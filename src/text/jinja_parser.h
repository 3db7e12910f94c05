// Tokens to a tree. Two classes: expressions, and the statements built on them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace kvern::text::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  ExpressionPtr expression();  // with `… if … else …`
  // Without the conditional form, whose `if` would eat a for loop's filter.
  ExpressionPtr or_expression();
  // An expression, or several with commas between them, which make a list.
  ExpressionPtr tuple();
  // `name(args) | name …` without an input: the head of {% filter %}.
  ExpressionPtr filter_chain(ExpressionPtr input);

  const Token& peek(size_t ahead = 0) const;
  bool at_operator(std::string_view op) const;
  bool at_name(std::string_view name) const;
  bool take_operator(std::string_view op);
  bool take_name(std::string_view name);
  Token take();
  std::string expect_name(std::string_view what);
  void expect_operator(std::string_view op);
  void expect(TokenKind kind, std::string_view what);
  [[noreturn]] void unexpected(std::string_view wanted) const;
  // Counts nesting of both expressions and statements for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

 private:
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int max_depth_;
};

// Throws Error(kInvalidModel) for bad syntax, Error(kUnsupported) for a construct that is not ours.
Template parse(std::string_view source, int max_depth);

}  // namespace kvern::text::jinja
