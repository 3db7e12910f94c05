#include "compile/ir/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/quoted.h"
#include "kvern/error.h"

namespace kvern::ir {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_.-/:").find(c) != std::string_view::npos;
}

}  // namespace

void TextCursor::fail(std::string_view message) const {
  fail_at(at_, message);
}

void TextCursor::fail_at(size_t position, std::string_view message) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = position - (before.rfind('\n') + 1) + 1;  // npos + 1 == 0
  throw Error(Code::kInvalidModel,
              fmt::format("graph text, line {}, column {}: {}", line, column, message));
}

void TextCursor::skip_space() {
  while (at_ < text_.size()) {
    if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    } else {
      return;
    }
  }
}

size_t TextCursor::position() {
  skip_space();
  return at_;
}

char TextCursor::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

void TextCursor::expect(char c) {
  if (!accept(c)) fail(fmt::format("expected '{}'", c));
}

std::string_view TextCursor::word() {
  skip_space();
  const size_t begin = at_;
  while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  if (begin == at_) fail("expected a name");
  return text_.substr(begin, at_ - begin);
}

bool TextCursor::accept_word(std::string_view wanted) {
  skip_space();
  const std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(wanted)) return false;
  if (rest.size() > wanted.size() && is_word(rest[wanted.size()])) return false;
  at_ += wanted.size();
  return true;
}

void TextCursor::expect_word(std::string_view wanted) {
  if (!accept_word(wanted)) fail(fmt::format("expected '{}'", wanted));
}

std::string TextCursor::quoted() {
  expect('"');
  std::optional<std::string> value = read_quoted(text_, at_);
  if (!value) fail("expected a closing quote");
  return *std::move(value);
}

std::string TextCursor::name() {
  return peek() == '"' ? quoted() : std::string(word());
}

int64_t TextCursor::integer() {
  skip_space();
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec != std::errc()) fail("expected an integer of 64 bits");
  at_ += static_cast<size_t>(result.ptr - begin);
  return value;
}

double TextCursor::real() {
  skip_space();
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec != std::errc()) fail("expected a number");
  at_ += static_cast<size_t>(result.ptr - begin);
  return value;
}

std::string_view TextCursor::braces() {
  const size_t begin = position();
  expect('{');
  bool in_quotes = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (in_quotes && c == '\\') {
      ++at_;
    } else if (c == '"') {
      in_quotes = !in_quotes;
    } else if (c == '}' && !in_quotes) {
      ++at_;
      return text_.substr(begin, at_ - begin);
    }
  }
  at_ = std::min(at_, text_.size());
  fail_at(begin, "expected a '}' for this '{'");
}

std::string print_name(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_word);
  return bare ? name : quote(name);
}

}  // namespace kvern::ir
