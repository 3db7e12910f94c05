#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "kvern/error.h"
#include "text/jinja_space.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"==", "!=", ">=", "<=", "//", "**"};
constexpr std::string_view kOperators = "+-*/%~<>=.:|,()[]{}";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_then_tag();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts(std::string_view prefix) const { return rest().starts_with(prefix); }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance(size_t count) {
    const auto begin = source_.begin() + static_cast<ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<ptrdiff_t>(count), '\n'));
    at_ += count;
  }

  void skip_spaces() { advance(rest().size() - without_leading_space(rest()).size()); }

  size_t find_tag(size_t from) const {
    for (;; ++from) {
      from = source_.find('{', from);
      if (from >= source_.size()) return source_.size();
      const char next = from + 1 < source_.size() ? source_[from + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return from;
    }
  }

  // Text in front of a tag, stripped as the tag's opening says: "-" takes all whitespace, and a
  // block or comment that stands first on its line takes the blanks before it unless it opens with
  // "+".
  std::string_view stripped_text(size_t tag) const {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') return without_trailing_space(text);
    if (source_[tag + 1] == '{' || sign == '+') return text;
    const size_t line = text.rfind('\n') + 1;  // 0 when there is none
    const bool line_start = line > 0 || at_ == 0 || source_[at_ - 1] == '\n';
    const bool blank = without_leading_space(text.substr(line)).empty();
    return line_start && blank ? text.substr(0, line) : text;
  }

  void text_then_tag() {
    const size_t tag = find_tag(at_);
    if (tag == source_.size()) {
      add(TokenKind::kText, std::string(rest()));
      advance(source_.size() - at_);
      return;
    }
    const std::string_view text = stripped_text(tag);
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(tag - at_);
    const char kind = source_[at_ + 1];
    if (kind == '#') return comment();
    if (kind == '%' && raw_block()) return;
    advance(2);
    if (starts("-") || starts("+")) advance(1);
    add(kind == '{' ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    inside_tag(kind == '{' ? "}}" : "%}");
  }

  // `at_` is behind a tag's end, `sign` the character that stood before that end.
  void after_tag(char sign, bool trims_newline) {
    if (sign == '-') {
      skip_spaces();
    } else if (trims_newline && sign != '+' && starts("\n")) {
      advance(1);
    }
  }

  void comment() {
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) syntax_error(line_, "the comment {# … has no end #}");
    advance(end + 2 - at_);
    after_tag(source_[end - 1], true);
  }

  // `{% name %}` at `at`: where it ends, and the signs that touch its borders.
  struct SimpleTag {
    size_t end;
    char sign_before;
    char sign_after;
  };
  std::optional<SimpleTag> simple_tag(size_t at, std::string_view name) const {
    const std::string_view s = source_;
    const auto skip = [&](size_t i) {
      const std::string_view tail = s.substr(std::min(i, s.size()));
      return i + tail.size() - without_leading_space(tail).size();
    };
    SimpleTag tag{0, ' ', ' '};
    size_t i = at + 2;
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) tag.sign_before = s[i++];
    i = skip(i);
    if (!s.substr(std::min(i, s.size())).starts_with(name)) return std::nullopt;
    i = skip(i + name.size());
    if (i < s.size() && (s[i] == '-' || s[i] == '+')) tag.sign_after = s[i++];
    if (!s.substr(std::min(i, s.size())).starts_with("%}")) return std::nullopt;
    tag.end = i + 2;
    return tag;
  }

  // {% raw %} … {% endraw %}: what lies between is text.
  bool raw_block() {
    const std::optional<SimpleTag> open = simple_tag(at_, "raw");
    if (!open) return false;
    advance(open->end - at_);
    after_tag(open->sign_after, false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      const std::optional<SimpleTag> close = simple_tag(tag, "endraw");
      if (!close) continue;
      add(TokenKind::kText, std::string(stripped_text(tag)));
      advance(close->end - at_);
      after_tag(close->sign_after, true);
      return true;
    }
    syntax_error(line_, "{% raw %} has no {% endraw %}");
  }

  void inside_tag(std::string_view end) {
    const bool block = end == "%}";
    const int begin_line = line_;
    int open_brackets = 0;
    while (true) {
      skip_spaces();
      if (at_ == source_.size()) syntax_error(begin_line, fmt::format("a tag has no end {}", end));
      const bool sign = starts("-") || starts("+");
      if (open_brackets == 0 && rest().substr(sign ? 1 : 0).starts_with(end)) {
        const char before = sign ? source_[at_] : ' ';
        add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "");
        advance(sign ? 3 : 2);
        return after_tag(before, block);
      }
      const char c = source_[at_];
      if (is_name_start(c)) {
        name();
      } else if (is_digit(c)) {
        number();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        if (c == '(' || c == '[' || c == '{') ++open_brackets;
        if ((c == ')' || c == ']' || c == '}') && --open_brackets < 0) {
          syntax_error(line_, fmt::format("'{}' closes nothing", c));
        }
        operator_token();
      }
    }
  }

  void name() {
    size_t count = 1;
    while (count < rest().size() && (is_name_start(rest()[count]) || is_digit(rest()[count]))) {
      ++count;
    }
    add(TokenKind::kName, std::string(rest().substr(0, count)));
    advance(count);
  }

  void number() {
    const std::string_view text = rest();
    if (text.size() > 2 && text[0] == '0' && std::string_view("xXoObB").find(text[1]) != text.npos)
      return prefixed_number(text);
    size_t i = 0;
    bool real = false;
    const auto digits = [&] {
      while (i < text.size() && (is_digit(text[i]) || text[i] == '_')) ++i;
    };
    digits();
    // Behind a '.', digits are an index and never a fraction: x.0.1.
    const bool index = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                       tokens_.back().text == ".";
    if (!index && i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) {
      real = true;
      ++i;
      digits();
    }
    if (i + 1 < text.size() && (text[i] == 'e' || text[i] == 'E')) {
      const size_t sign = text[i + 1] == '-' || text[i + 1] == '+' ? 1 : 0;
      if (i + 1 + sign < text.size() && is_digit(text[i + 1 + sign])) {
        real = true;
        i += 1 + sign;
        digits();
      }
    }
    std::string value(text.substr(0, i));
    std::erase(value, '_');
    add(real ? TokenKind::kReal : TokenKind::kInteger, std::move(value));
    advance(i);
  }

  // 0x1f, 0o17, 0b1.
  void prefixed_number(std::string_view text) {
    const char kind = static_cast<char>(text[1] | 0x20);
    const auto digit = [](char c) {
      const char lower = static_cast<char>(c | 0x20);
      return is_digit(c) || c == '_' || (lower >= 'a' && lower <= 'f');
    };
    size_t end = 2;
    while (end < text.size() && digit(text[end])) ++end;
    std::string digits(text.substr(2, end - 2));
    std::erase(digits, '_');
    int64_t value = 0;
    const char* last = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), last, value,
                                             kind == 'x'   ? 16
                                             : kind == 'o' ? 8
                                                           : 2);
    if (error != std::errc{} || at != last) {
      syntax_error(line_,
                   fmt::format("'{}' is no number", text.substr(0, std::min(end, size_t{64}))));
    }
    add(TokenKind::kInteger, fmt::format("{}", value));
    advance(end);
  }

  void operator_token() {
    for (const std::string_view op : kLongOperators) {
      if (!starts(op)) continue;
      add(TokenKind::kOperator, std::string(op));
      return advance(2);
    }
    if (kOperators.find(source_[at_]) == std::string_view::npos) {
      syntax_error(line_, fmt::format("unexpected character '{}'", source_[at_]));
    }
    add(TokenKind::kOperator, std::string(1, source_[at_]));
    advance(1);
  }

  void string(char quote) {
    const int begin_line = line_;
    std::string value;
    size_t i = at_ + 1;
    for (;; ++i) {
      if (i >= source_.size()) syntax_error(begin_line, "a string has no closing quote");
      if (source_[i] == quote) break;
      if (source_[i] != '\\') {
        value.push_back(source_[i]);
      } else {
        i = escape(i + 1, value);
      }
    }
    add(TokenKind::kString, std::move(value));
    advance(i + 1 - at_);
  }

  // The escape whose letter is at `i`; returns the place of its last character. Python keeps the
  // backslash of those it does not know.
  size_t escape(size_t i, std::string& value) const {
    if (i >= source_.size()) return i;
    constexpr std::string_view kFrom = "nrtabfv\\'\"";
    constexpr std::string_view kTo = "\n\r\t\a\b\f\v\\'\"";
    const char c = source_[i];
    if (c == '\n') return i;  // a line that goes on
    if (c >= '0' && c <= '7') return octal_escape(i, value);
    if (const size_t found = kFrom.find(c); found != std::string_view::npos) {
      value.push_back(kTo[found]);
      return i;
    }
    const size_t num_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    size_t digits = 0;
    for (; digits < num_digits && i + 1 + digits < source_.size(); ++digits) {
      const char d = source_[i + 1 + digits];
      const char lower = static_cast<char>(d | 0x20);
      if (is_digit(d)) {
        code = code << 4 | static_cast<uint32_t>(d - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        code = code << 4 | static_cast<uint32_t>(lower - 'a' + 10);
      } else {
        break;
      }
    }
    if (num_digits == 0 || digits < num_digits || code > 0x10FFFF) {
      value.push_back('\\');
      value.push_back(c);
      return i;
    }
    append_utf8(value, code);
    return i + num_digits;
  }

  size_t octal_escape(size_t i, std::string& value) const {
    uint32_t code = 0;
    const size_t end = std::min(i + 3, source_.size());
    for (; i < end && source_[i] >= '0' && source_[i] <= '7'; ++i) {
      code = code << 3 | static_cast<uint32_t>(source_[i] - '0');
    }
    append_utf8(value, code);
    return i - 1;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

void syntax_error(int line, const std::string& problem) {
  throw Error(Code::kInvalidModel, fmt::format("chat template, line {}: {}", line, problem));
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace kvern::text::jinja
