#include "text/jinja_token_cursor.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvern::text::jinja {

TokenCursor::Nesting::Nesting(TokenCursor& parser) : parser_(parser) {
  if (++parser_.nesting_ > parser_.max_depth_) {
    --parser_.nesting_;
    syntax_error(parser_.peek().line, fmt::format("nested deeper than {}", parser_.max_depth_));
  }
}

const Token& TokenCursor::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool TokenCursor::at_operator(std::string_view op) const {
  return peek().kind == TokenKind::kOperator && peek().text == op;
}

bool TokenCursor::at_name(std::string_view name) const {
  return peek().kind == TokenKind::kName && peek().text == name;
}

bool TokenCursor::take_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  ++at_;
  return true;
}

bool TokenCursor::take_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++at_;
  return true;
}

Token TokenCursor::take() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

void TokenCursor::unexpected(std::string_view wanted) const {
  const Token& token = peek();
  std::string got = fmt::format("'{}'", token.text);
  if (token.kind == TokenKind::kEnd) got = "the end of the template";
  if (token.kind == TokenKind::kBlockEnd) got = "%}";
  if (token.kind == TokenKind::kPrintEnd) got = "}}";
  syntax_error(token.line, fmt::format("expected {}, found {}", wanted, got));
}

std::string TokenCursor::expect_name(std::string_view what) {
  if (peek().kind != TokenKind::kName) unexpected(what);
  return take().text;
}

void TokenCursor::expect_operator(std::string_view op) {
  if (!take_operator(op)) unexpected(fmt::format("'{}'", op));
}

void TokenCursor::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) unexpected(what);
  take();
}

}  // namespace kvern::text::jinja
