#include "text/oniguruma.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/quoted.h"
#include "kvern/error.h"

namespace kvern::text {
namespace {

// Members of classes. White_Space, which PCRE2's \s is not: that takes U+180E too.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// All others, since a class cannot hold the negation of several ranges.
constexpr std::string_view kNoSpaces =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
// PCRE2's \w lacks marks and takes every other number. Of those Oniguruma has the six of Latin-1;
// of symbols the letters in circles and squares.
constexpr std::string_view kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

constexpr auto kCategories = std::to_array<std::string_view>(
    {"C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
     "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
     "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"});
constexpr auto kScripts = std::to_array<std::string_view>(
    {"Arabic",   "Armenian",  "Bengali",   "Bopomofo", "Common",   "Cyrillic", "Devanagari",
     "Ethiopic", "Georgian",  "Greek",     "Gujarati", "Gurmukhi", "Han",      "Hangul",
     "Hebrew",   "Hiragana",  "Inherited", "Kannada",  "Katakana", "Khmer",    "Lao",
     "Latin",    "Malayalam", "Mongolian", "Myanmar",  "Oriya",    "Sinhala",  "Syriac",
     "Tamil",    "Telugu",    "Thaana",    "Thai",     "Tibetan",  "Yi"});

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMaxTranslated_bytes = 1 << 20;
constexpr int kMaxClassDepth = 16;

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      piece();
      if (out_.size() > kMaxTranslated_bytes) unsupported("a pattern that grows beyond 1 MiB");
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void unsupported(std::string_view construct) const {
    throw Error(
        Code::kUnsupported,
        fmt::format("tokenizer: split pattern {}: {} at byte {} is not supported; splitting "
                    "otherwise would give wrong ids",
                    quote(in_), construct, at_));
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool begins(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  // One atom with its quantifiers, or one of | ( ).
  void piece();
  void group();
  void options(size_t end);
  void close();
  void escape();
  void quantifiers();
  std::optional<std::string> interval();
  std::string property(bool negated);
  std::string code_point();
  void char_class();
  void class_items(int depth);
  void class_escape();

  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }
  void wrap() {
    out_.insert(atom_, "(?:");
    out_ += ')';
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = std::string::npos;  // where in out_ the last atom begins; npos: none to repeat
  bool range_ = false;               // a class's last character was the '-' of a range
  std::vector<size_t> open_;         // where in out_ the open groups begin
};

void Translator::piece() {
  const char c = peek();
  if (c == '(') return group();
  if (c == '|') {
    ++at_;
    out_ += '|';
    atom_ = std::string::npos;
    return;
  }
  if (c == ')') {
    close();
  } else if (c == '[') {
    char_class();
  } else if (c == '\\') {
    escape();
  } else if (c == '*' || c == '+' || c == '?') {
    unsupported(fmt::format("'{}' with nothing to repeat", c));
  } else if (c == '{' || c == '}' || c == ']') {
    atom({"\\", 1});
    out_ += c;
    ++at_;
  } else {
    // A character with all its bytes, so that a quantifier's group holds it whole.
    const size_t begin = at_++;
    while (at_ < in_.size() && (in_[at_] & 0xC0) == 0x80) ++at_;
    atom(in_.substr(begin, at_ - begin));
  }
  quantifiers();
}

void Translator::group() {
  for (const std::string_view start : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
    if (!begins(start)) continue;
    open_.push_back(out_.size());
    out_ += start;
    at_ += start.size();
    atom_ = std::string::npos;
    return;
  }
  if (begins("(?")) {
    const size_t end = in_.find_first_not_of("imx-", at_ + 2);
    if (end == std::string_view::npos || end == at_ + 2 || (in_[end] != ':' && in_[end] != ')')) {
      unsupported(fmt::format("the group {}", quote(in_.substr(at_, 4))));
    }
    return options(end);
  }
  if (begins("(*")) unsupported("'(*'");
  open_.push_back(out_.size());
  out_ += '(';
  ++at_;
  atom_ = std::string::npos;
}

// (?i: … and (?i); Ruby's m is what others call s.
void Translator::options(size_t end) {
  const std::string_view letters = in_.substr(at_ + 2, end - at_ - 2);
  if (letters.find('x') != std::string_view::npos) unsupported("the option x");
  // Alternatives behind it belong to Oniguruma's option alone.
  if (in_[end] == ')' && at_ != 0) unsupported("an option behind the pattern's start");
  if (in_[end] == ':') open_.push_back(out_.size());
  out_ += "(?";
  for (const char letter : letters) out_ += letter == 'm' ? 's' : letter;
  out_ += in_[end];
  at_ = end + 1;
  atom_ = std::string::npos;
}

void Translator::close() {
  if (open_.empty()) unsupported("')' without its '('");
  atom_ = open_.back();
  open_.pop_back();
  out_ += ')';
  ++at_;
}

// \p{L}, \p{^L}, \P{Han}
std::string Translator::property(bool negated) {
  const size_t end = in_.find('}', at_);
  if (peek(2) != '{' || end == std::string_view::npos) unsupported("\\p without {…}");
  std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  std::string_view script;
  if (std::ranges::find(kCategories, name) == kCategories.end()) {
    if (std::ranges::find(kScripts, name) == kScripts.end()) {
      unsupported(fmt::format("the property {}", quote(name)));
    }
    script = "sc:";  // PCRE2 alone would take the characters that scripts share, too
  }
  at_ = end + 1;
  return fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', script, name);
}

// \x41, \x{41}, \u0041
std::string Translator::code_point() {
  constexpr std::string_view kHex = "0123456789ABCDEFabcdef";
  const bool braces = peek(2) == '{';
  size_t begin = at_ + (braces ? 3 : 2);
  size_t end = std::min(in_.find_first_not_of(kHex, begin), in_.size());
  if (!braces) end = std::min(end, begin + (peek(1) == 'u' ? 4 : 2));
  const std::string_view digits = in_.substr(begin, end - begin);
  // Two digits are a byte to Oniguruma, and a character only where it is ASCII.
  const bool byte = !braces && peek(1) == 'x' && (digits.size() != 2 || digits[0] > '7');
  const bool four = !braces && peek(1) == 'u' && digits.size() != 4;
  if (digits.empty() || digits.size() > 8 || byte || four ||
      (braces && (peek(1) == 'u' || end == in_.size() || in_[end] != '}'))) {
    unsupported(fmt::format("the character {}", quote(in_.substr(at_, 6))));
  }
  at_ = end + (braces ? 1 : 0);
  return fmt::format("\\x{{{}}}", digits);
}

// What one letter behind a backslash stands for inside a class; nothing for others.
std::optional<std::string_view> members_of(char letter) {
  switch (letter) {
    case 's':
      return kSpaces;
    case 'S':
      return kNoSpaces;
    case 'w':
      return kWords;
    case 'h':
      return kHexDigits;
    case 'd':
      return R"(\p{Nd})";
    case 'D':
      return R"(\P{Nd})";
    case 'v':
      return R"(\x{b})";
    case 't':
      return R"(\t)";
    case 'n':
      return R"(\n)";
    case 'r':
      return R"(\r)";
    case 'f':
      return R"(\f)";
    case 'a':
      return R"(\x{7})";
    case 'e':
      return R"(\x{1b})";
    default:
      return std::nullopt;
  }
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void Translator::escape() {
  const char c = peek(1);
  if (c == 'p' || c == 'P') return atom(property(c == 'P'));
  if (c == 'x' || c == 'u') return atom(code_point());
  if (const auto members = members_of(c)) {
    atom(fmt::format("[{}]", *members));
  } else if (c == 'W') {
    atom(fmt::format("[^{}]", kWords));
  } else if (c == 'H') {
    atom(fmt::format("[^{}]", kHexDigits));
  } else if (c == 'b') {
    atom(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWords));
  } else if (c == 'B') {
    atom(fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWords));
  } else if (c == 'A' || c == 'z' || c == 'Z') {
    atom(in_.substr(at_, 2));
  } else if (c == '\0' || is_letter_or_digit(c)) {
    unsupported(quote(in_.substr(at_, 2)));
  } else if (c & 0x80) {
    ++at_;  // the backslash changes nothing
    return piece();
  } else {
    atom(in_.substr(at_, 2));
  }
  at_ += 2;
}

// {2}, {2,}, {,3}, {2,3} as PCRE2 writes them; nothing for what both take as characters.
std::optional<std::string> Translator::interval() {
  const size_t end = in_.find('}', at_);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inner = in_.substr(at_ + 1, end - at_ - 1);
  const size_t comma = inner.find(',');
  const std::string_view low = inner.substr(0, comma);
  const std::string_view high = comma == std::string_view::npos ? low : inner.substr(comma + 1);
  const auto number = [](std::string_view text) {
    return text.find_first_not_of(kDigits) == std::string_view::npos && text.size() <= 5;
  };
  if (!number(low) || !number(high) || (low.empty() && high.empty())) return std::nullopt;
  at_ = end + 1;
  return fmt::format("{{{}{}{}}}", low.empty() ? "0" : low,
                     comma == std::string_view::npos ? "" : ",",
                     comma == std::string_view::npos ? "" : high);
}

// Of * + and ? a ? behind makes the lazy and a + the possessive one, in both. Behind an interval, ?
// is lazy unless it is one number, and + repeats the repeat, as does every further quantifier.
void Translator::quantifiers() {
  for (bool repeated = false;; repeated = true) {
    const char c = peek();
    std::string next;
    bool one_number = false;
    if (c == '*' || c == '+' || c == '?') {
      next.assign(1, c);
      ++at_;
    } else if (c == '{') {
      const size_t begin = at_;
      const auto found = interval();
      if (!found) return;
      next = *found;
      one_number = in_.substr(begin, at_ - begin).find(',') == std::string_view::npos;
    }
    if (next.empty()) return;
    if (repeated) wrap();
    const bool simple = c != '{';
    if ((peek() == '?' && !one_number) || (peek() == '+' && simple)) next += in_[at_++];
    out_ += next;
  }
}

void Translator::char_class() {
  atom("[");
  ++at_;
  if (peek() == '^') {
    out_ += '^';
    ++at_;
  }
  class_items(0);
  out_ += ']';
}

// Up to and with the ']'. A class inside another adds its members.
void Translator::class_items(int depth) {
  if (depth > kMaxClassDepth) unsupported("a class that deep in others");
  if (peek() == ']') unsupported("a class that begins with ']'");
  const size_t begin = at_;
  while (peek() != ']' || at_ >= in_.size()) {
    if (at_ >= in_.size()) unsupported("a class without its ']'");
    const char c = peek();
    if (begins("&&")) unsupported("'&&' in a class");
    if (begins("[:")) unsupported("'[:' in a class");
    if (c == '[') {
      if (peek(1) == '^') unsupported("a negated class in another");
      if (range_) unsupported("a range to a class");
      ++at_;
      class_items(depth + 1);
    } else if (c == '\\') {
      class_escape();
    } else if (c == '-') {
      // A range only between two members of this very class.
      range_ = at_ > begin && peek(1) != ']';
      out_ += range_ ? "-" : "\\-";
      ++at_;
      continue;
    } else {
      if (c == '^') out_ += '\\';
      out_ += c;
      ++at_;
    }
    range_ = false;
  }
  ++at_;
  if (depth > 0 && peek() == '-' && peek(1) != ']') unsupported("'-' behind a class");
}

void Translator::class_escape() {
  const char c = peek(1);
  const bool one_character = c == 'x' || c == 'u' || !is_letter_or_digit(c) ||
                             std::string_view("tnrfaev").find(c) != std::string_view::npos;
  const size_t begin = at_;
  if (c == 'p' || c == 'P') {
    out_ += property(c == 'P');
  } else if (c == 'x' || c == 'u') {
    out_ += code_point();
  } else if (const auto members = members_of(c)) {
    out_ += *members;
    at_ += 2;
  } else if (c == '\0' || is_letter_or_digit(c)) {
    unsupported(fmt::format("{} in a class", quote(in_.substr(at_, 2))));
  } else if (c & 0x80) {
    ++at_;
  } else {
    out_.append(in_.substr(at_, 2));
    at_ += 2;
  }
  const bool range_behind = peek() == '-' && peek(1) != ']';
  if (one_character || (!range_ && !range_behind)) return;
  unsupported(fmt::format("a range of {}", quote(in_.substr(begin, 2))));
}

}  // namespace

std::string pcre2_of_oniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace kvern::text
