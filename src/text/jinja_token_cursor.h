// A place in a list of tokens, and the questions that both parsers ask there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_lexer.h"

namespace kvern::text::jinja {

class TokenCursor {
 public:
  TokenCursor(std::vector<Token> tokens, int max_depth)
      : max_depth_(max_depth), tokens_(std::move(tokens)) {}

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
    explicit Nesting(TokenCursor& parser);
    ~Nesting() { --parser_.nesting_; }

   private:
    TokenCursor& parser_;
  };

 protected:
  int max_depth_;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace kvern::text::jinja
