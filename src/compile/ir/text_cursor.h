// Walks the text form of a graph; every refusal carries line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::ir {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // Next character after space and `#` comments; '\0' at the end.
  char peek();
  bool accept(char c);
  void expect(char c);
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word);
  // Letters, digits and _ . - / : — names of values, ops, dtypes and formats.
  std::string_view word();
  std::string quoted();
  // A word or a quoted string.
  std::string name();
  int64_t integer();
  double real();
  // From '{' to the matching '}', quotes respected.
  std::string_view braces();

  size_t position();
  // "graph text, line 3, column 7: …" at the cursor, or at an earlier position.
  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] void fail_at(size_t position, std::string_view message) const;

 private:
  void skip_space();

  std::string_view text_;
  size_t at_ = 0;
};

// A value name as it is printed: bare where word() would read it, quoted otherwise.
std::string print_name(const std::string& name);

}  // namespace kvern::ir
