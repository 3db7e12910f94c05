// Template source to tokens, with Jinja's rules for whitespace already applied (trim_blocks and
// lstrip_blocks on, the last newline dropped).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::text::jinja {

enum class TokenKind : uint8_t {
  kText,
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text: unescaped
  kInteger,
  kReal,
  kOperator,  // text: "+", "==", "(", …
  kEnd
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;
};

// Throws Error(kInvalidModel) naming the line.
std::vector<Token> tokenize(std::string_view source);

[[noreturn]] void syntax_error(int line, const std::string& problem);

}  // namespace kvern::text::jinja
