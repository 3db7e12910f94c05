// Methods of strings that change case, strip and replace.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/jinja_space.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

bool stripped(Context& context, std::string_view character, const std::string* chars) {
  context.step();
  return chars ? chars->find(character) != std::string::npos : is_space_at(character, 0);
}

enum class Side { kLeft, kRight, kBoth };

template <Side kSide>
Value strip(Context& context, const Value& input, Given given) {
  const std::string* chars = given[0].string();
  if (given.given(0) && !given[0].none() && !chars) need_string(context, given[0], "strip()");
  if (chars && chars->size() > 64) {
    context.unsupported("stripping more than 64 bytes of characters");
  }
  std::string_view text = *input.string();
  while (kSide != Side::kRight && !text.empty()) {
    const size_t length = char_at(text, 0).length_bytes;
    if (!stripped(context, text.substr(0, length), chars)) break;
    text.remove_prefix(length);
  }
  while (kSide != Side::kLeft && !text.empty()) {
    const std::string_view last = last_character(text);
    if (!stripped(context, last, chars)) break;
    text.remove_suffix(last.size());
  }
  if (text.size() == input.string()->size()) return input;
  return Value::text(context, std::string(text));
}

Value upper(Context& context, const Value& input, Given) {
  return Value::text(context, to_upper(*input.string()));
}

Value lower(Context& context, const Value& input, Given) {
  return Value::text(context, to_lower(*input.string()));
}

Value capitalize(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  if (text.empty()) return input;
  const size_t first = char_at(text, 0).length_bytes;
  return Value::text(context, to_upper(text.substr(0, first)) + to_lower(text.substr(first)));
}

Value title(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  context.step(text.size() / 8);
  std::string out;
  bool start = true;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const std::string_view character = std::string_view(text).substr(at, c.length_bytes);
    out += start ? to_upper(character) : to_lower(character);
    start = c.cls != CharClass::kLetter;
    at += c.length_bytes;
  }
  return Value::text(context, std::move(out));
}

Value swap_case(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  context.step(text.size() / 8);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_at(text, at).length_bytes;
    const std::string character = text.substr(at, length);
    const std::string lower = to_lower(character);
    out += lower == character ? to_upper(character) : lower;
    at += length;
  }
  return Value::text(context, std::move(out));
}

// `instead` before every character and at the end.
Value interleaved(Context& context, const std::string& text, const std::string& instead,
                  int64_t left) {
  std::string out;
  size_t at = 0;
  while (left != 0 && at <= text.size()) {
    out += instead;
    context.step(1 + instead.size() / 64);
    context.need(out.size());
    --left;
    if (at == text.size()) break;
    const size_t length = char_at(text, at).length_bytes;
    out.append(text, at, length);
    at += length;
  }
  out.append(text, std::min(at, text.size()));
  return Value::text(context, std::move(out));
}

Value replace(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  const std::string& wanted = need_string(context, given[0], "replace()");
  const std::string& instead = need_string(context, given[1], "replace()");
  int64_t left = given.integer_or(context, 2, -1);
  if (wanted.empty()) return interleaved(context, text, instead, left);
  std::string out;
  size_t at = 0;
  while (left != 0) {
    const size_t found = find_text(context, text, wanted, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at);
    out += instead;
    context.step(instead.size() / 64);
    context.need(out.size());
    at = found + wanted.size();
    --left;
  }
  out.append(text, at);
  return Value::text(context, std::move(out));
}

constexpr Builtin kMethods[] = {
    {"strip", "chars", strip<Side::kBoth>},
    {"lstrip", "chars", strip<Side::kLeft>},
    {"rstrip", "chars", strip<Side::kRight>},
    {"upper", "", upper},
    {"lower", "", lower},
    {"casefold", "", lower},
    {"capitalize", "", capitalize},
    {"title", "", title},
    {"swapcase", "", swap_case},
    {"replace", "old! new! count", replace},
};

}  // namespace

std::span<const Builtin> case_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
