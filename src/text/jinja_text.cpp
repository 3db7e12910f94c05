// Filters that make text of a value, and the methods of strings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "text/jinja_builtin.h"
#include "text/jinja_print.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value made(Context& context, std::string text) {
  context.charge(text.size());
  return Value(std::move(text));
}

std::string text_of(Context& context, const Value& value) {
  std::string text = to_string(context, value);
  context.step(text.size() / 64);
  return text;
}

// The character that ends `text` (not empty); a byte that is not UTF-8 is one.
std::string_view last_character(std::string_view text) {
  for (size_t length = 2; length <= std::min<size_t>(4, text.size()); ++length) {
    const Utf8Prefix prefix = utf8_prefix(text.substr(text.size() - length));
    if (prefix.state == Utf8Start::kComplete && prefix.length_bytes == length) {
      return text.substr(text.size() - length);
    }
  }
  return text.substr(text.size() - 1);
}

// What str.strip() takes: White_Space, and four separators that Python adds.
bool strips(std::string_view character, const std::string* chars) {
  if (chars) return chars->find(character) != std::string::npos;
  return char_at(character, 0).cls == CharClass::kSpace ||
         (character[0] >= 0x1C && character[0] <= 0x1F);
}

enum class Side { kLeft, kRight, kBoth };

Value strip(Context& context, const Value& input, Given given, Side side) {
  const std::string whole = text_of(context, input);
  const std::string* chars = given[0].string();
  if (chars && chars->size() > 64)
    context.unsupported("stripping more than 64 bytes of characters");
  std::string_view text = whole;
  while (side != Side::kRight && !text.empty()) {
    const size_t length = char_at(text, 0).length_bytes;
    if (!strips(text.substr(0, length), chars)) break;
    text.remove_prefix(length);
  }
  while (side != Side::kLeft && !text.empty()) {
    const std::string_view last = last_character(text);
    if (!strips(last, chars)) break;
    text.remove_suffix(last.size());
  }
  return Value(std::string(text));
}

Value upper(Context& context, const Value& input, Given) {
  return made(context, to_upper(text_of(context, input)));
}

Value lower(Context& context, const Value& input, Given) {
  return made(context, to_lower(text_of(context, input)));
}

Value capitalize(Context& context, const Value& input, Given) {
  const std::string text = text_of(context, input);
  if (text.empty()) return Value(text);
  const size_t first = char_at(text, 0).length_bytes;
  return made(context, to_upper(text.substr(0, first)) + to_lower(text.substr(first)));
}

// Upper case wherever `starts_word` holds for the character before, lower case elsewhere.
template <class StartsWord>
Value titled(Context& context, const Value& input, StartsWord starts_word) {
  const std::string text = text_of(context, input);
  std::string out;
  bool start = true;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const std::string_view character = std::string_view(text).substr(at, c.length_bytes);
    out += start ? to_upper(character) : to_lower(character);
    start = starts_word(c, text[at]);
    at += c.length_bytes;
  }
  return made(context, std::move(out));
}

Value title_filter(Context& context, const Value& input, Given) {
  return titled(context, input, [](Char c, char byte) {
    return c.cls == CharClass::kSpace ||
           std::string_view("-({[<").find(byte) != std::string_view::npos;
  });
}

Value title_method(Context& context, const Value& input, Given) {
  return titled(context, input, [](Char c, char) { return c.cls != CharClass::kLetter; });
}

Value replace(Context& context, const Value& input, Given given) {
  const std::string text = text_of(context, input);
  const std::string wanted = given.string_or(context, 0, "");
  const std::string instead = given.string_or(context, 1, "");
  int64_t left = given.integer_or(context, 2, -1);
  if (wanted.empty()) context.unsupported("replacing the empty string");
  std::string out;
  size_t at = 0;
  while (left != 0) {
    const size_t found = find_text(context, text, wanted, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at);
    out += instead;
    context.charge(instead.size());
    at = found + wanted.size();
    --left;
  }
  out.append(text, at);
  return made(context, std::move(out));
}

Value escape(Context& context, const Value& input, Given) {
  std::string out;
  for (const char c : text_of(context, input)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  }
  return made(context, std::move(out));
}

Value indent(Context& context, const Value& input, Given given) {
  const std::string text = text_of(context, input);
  const int64_t width = given.integer_or(context, 0, 4);
  if (width < 0 || width > 256) context.fail("indent() takes widths of 0 to 256");
  const std::string blanks = given[0].string() ? *given[0].string() : std::string(width, ' ');
  const bool first = given[1].truthy();
  const bool blank_lines = given[2].truthy();
  std::string out = first ? blanks : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] != '\n') continue;
    const bool blank = i + 1 == text.size() || text[i + 1] == '\n';
    if (!blank || blank_lines) out += blanks;
    context.charge(blanks.size());
  }
  return made(context, std::move(out));
}

Value json(Context& context, const Value& input, Given given) {
  const int64_t width = given.integer_or(context, 3, -1);
  if (width > 64) context.fail("tojson() takes an indent of up to 64");
  if (given[0].truthy() || given[1].truthy() || given[2].truthy()) {
    context.unsupported("tojson() with ensure_ascii, sort_keys or separators");
  }
  return Value(to_json(context, input, static_cast<int>(std::max<int64_t>(width, -1))));
}

Value as_text(Context& context, const Value& input, Given) {
  return Value(to_string(context, input));
}

Value as_integer(Context& context, const Value& input, Given given) {
  const Value otherwise = given.given(0) ? given[0] : Value(int64_t{0});
  if (input.number() && !input.real()) return Value(input.as_integer());
  const double real = input.real() ? *input.real() : 0;
  if (input.real()) return std::abs(real) < 9e18 ? Value(static_cast<int64_t>(real)) : otherwise;
  if (!input.string()) return otherwise;
  const char* begin = input.string()->c_str();
  char* end = nullptr;
  errno = 0;
  context.step(1 + input.string()->size() / 64);
  const int64_t value = std::strtoll(begin, &end, 10);
  while (*end == ' ' || *end == '\n') ++end;
  return end != begin && *end == '\0' && errno == 0 ? Value(value) : otherwise;
}

Value as_real(Context& context, const Value& input, Given given) {
  if (input.number()) return Value(input.as_real());
  if (input.string()) {
    char* end = nullptr;
    context.step(1 + input.string()->size() / 8);  // digits are dear
    const double value = std::strtod(input.string()->c_str(), &end);
    if (end != input.string()->c_str() && *end == '\0') return Value(value);
  }
  return given.given(0) ? given[0] : Value(0.0);
}

Value absolute(Context& context, const Value& input, Given) {
  if (!input.number()) context.fail("abs needs a number");
  if (input.real()) return Value(std::abs(*input.real()));
  const int64_t value = input.as_integer();
  if (value == INT64_MIN) context.fail("the result of abs is too large");
  return Value(value < 0 ? -value : value);
}

Value round_half_even(Context& context, const Value& input, Given given) {
  if (!input.number()) context.fail("round needs a number");
  const int64_t digits = given.integer_or(context, 0, 0);
  if (digits < 0 || digits > 15) context.unsupported("round to fewer than 0 or over 15 digits");
  return Value(std::strtod(fmt::format("{:.{}f}", input.as_real(), digits).c_str(), nullptr));
}

constexpr auto kStripBoth = [](Context& c, const Value& v, Given a) {
  return strip(c, v, a, Side::kBoth);
};
constexpr auto kStripLeft = [](Context& c, const Value& v, Given a) {
  return strip(c, v, a, Side::kLeft);
};
constexpr auto kStripRight = [](Context& c, const Value& v, Given a) {
  return strip(c, v, a, Side::kRight);
};

constexpr Builtin kFilters[] = {
    {"trim", "chars", kStripBoth},
    {"upper", "", upper},
    {"lower", "", lower},
    {"capitalize", "", capitalize},
    {"title", "", title_filter},
    {"replace", "old new count", replace},
    {"string", "", as_text},
    {"safe", "", as_text},
    {"escape", "", escape},
    {"e", "", escape},
    {"indent", "width first blank", indent},
    {"tojson", "ensure_ascii sort_keys separators indent", json},
    {"int", "default", as_integer},
    {"float", "default", as_real},
    {"abs", "", absolute},
    {"round", "precision", round_half_even},
};

constexpr Builtin kMethods[] = {
    {"strip", "chars", kStripBoth},
    {"lstrip", "chars", kStripLeft},
    {"rstrip", "chars", kStripRight},
    {"upper", "", upper},
    {"lower", "", lower},
    {"capitalize", "", capitalize},
    {"title", "", title_method},
    {"replace", "old new count", replace},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}
std::span<const Builtin> text_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
