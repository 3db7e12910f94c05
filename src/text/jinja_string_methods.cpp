// Methods of strings that join, fill up and classify.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value join(Context& context, const Value& input, Given given) {
  const std::string& separator = *input.string();
  const Value items = items_of(context, given[0]);
  std::string out;
  bool first = true;
  for (const Value& item : items.list()->items) {
    if (!std::exchange(first, false)) out += separator;
    out += need_string(context, item, "join()");
    context.step(1 + (separator.size() + item.string()->size()) / 64);
    context.need(out.size());
  }
  return Value::text(context, std::move(out));
}

enum class Align { kLeft, kRight, kCenter };

template <Align kAlign>
Value filled(Context& context, const Value& input, Given given) {
  const std::string fill = given.string_or(context, 1, " ");
  if (length_of(context, Value::text(context, fill)) != 1) {
    context.fail("the fill character must be one character");
  }
  const int64_t width = given.integer_or(context, 0, 80);
  const int64_t missing = width - length_of(context, input);
  if (missing <= 0) return input;
  context.need(static_cast<uint64_t>(missing) * fill.size() + input.string()->size());
  context.step(static_cast<uint64_t>(missing) / 8);
  // Python's rule for the odd blank of center().
  const int64_t left = kAlign == Align::kLeft    ? 0
                       : kAlign == Align::kRight ? missing
                                                 : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += *input.string();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return Value::text(context, std::move(out));
}

Value zero_filled(Context& context, const Value& input, Given given) {
  const int64_t missing = given.integer_or(context, 0, 0) - length_of(context, input);
  if (missing <= 0) return input;
  context.need(static_cast<uint64_t>(missing) + input.string()->size());
  std::string out = *input.string();
  const size_t sign = out.starts_with('-') || out.starts_with('+') ? 1 : 0;
  out.insert(sign, static_cast<size_t>(missing), '0');
  return Value::text(context, std::move(out));
}

Value expand_tabs(Context& context, const Value& input, Given given) {
  const int64_t size = given.integer_or(context, 0, 8);
  if (size < 0 || size > 256) context.fail("expandtabs() takes sizes of 0 to 256");
  std::string out;
  int64_t column = 0;
  for (const char c : *input.string()) {
    context.step();
    if (c == '\t') {
      const int64_t blanks = size == 0 ? 0 : size - column % size;
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      context.need(out.size());
      continue;
    }
    out.push_back(c);
    if (c == '\n' || c == '\r') {
      column = 0;
    } else if ((c & 0xC0) != 0x80) {
      ++column;
    }
  }
  return Value::text(context, std::move(out));
}

template <CharClass... kAllowed>
Value all_of(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  context.step(text.size() / 64);
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    if (((c.cls != kAllowed) && ...)) return Value(false);
    at += c.length_bytes;
  }
  return Value(!text.empty());
}

Value is_ascii(Context& context, const Value& input, Given) {
  context.step(input.string()->size() / 64);
  return Value(std::all_of(input.string()->begin(), input.string()->end(),
                           [](char c) { return (c & 0x80) == 0; }));
}

// Every run of letters begins with an upper-case one, and there is a letter.
Value is_title(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  context.step(text.size() / 4);
  bool inside = false;
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const std::string character = text.substr(at, c.length_bytes);
    at += c.length_bytes;
    const bool is_upper = to_lower(character) != character;
    const bool is_lower = !is_upper && to_upper(character) != character;
    if ((is_upper && inside) || (is_lower && !inside)) return Value(false);
    inside = is_upper || is_lower;
    any = any || inside;
  }
  return Value(any);
}

template <const char* kTest>
Value tested(Context& context, const Value& input, Given) {
  return call(context, *find_test(kTest), input, {});
}
constexpr char kLower[] = "lower";
constexpr char kUpper[] = "upper";

constexpr Builtin kMethods[] = {
    {"join", "iterable!", join},
    {"ljust", "width! fillchar", filled<Align::kLeft>},
    {"rjust", "width! fillchar", filled<Align::kRight>},
    {"center", "width! fillchar", filled<Align::kCenter>},
    {"zfill", "width!", zero_filled},
    {"expandtabs", "tabsize", expand_tabs},
    {"isdigit", "", all_of<CharClass::kNumber>},
    {"isnumeric", "", all_of<CharClass::kNumber>},
    {"isdecimal", "", all_of<CharClass::kNumber>},
    {"isalpha", "", all_of<CharClass::kLetter>},
    {"isalnum", "", all_of<CharClass::kLetter, CharClass::kNumber>},
    {"isspace", "", all_of<CharClass::kSpace>},
    {"islower", "", tested<kLower>},
    {"isupper", "", tested<kUpper>},
    {"istitle", "", is_title},
    {"isascii", "", is_ascii},
};

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
