// Filters that make text of a value.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_print.h"
#include "text/jinja_space.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// `builtin` of a string's methods, of any value's text.
template <const Builtin* (*kFind)()>
Value as_method(Context& context, const Value& input, Given given) {
  return kFind()->run(context, Value::text(context, to_string(context, input)), given);
}

const Builtin* method_named(std::string_view name) {
  static const Value kText = Value::constant("");
  return find_method(kText, name);
}

template <size_t kSize>
struct Name {
  constexpr Name(const char (&text)[kSize]) { std::copy_n(text, kSize, value); }
  char value[kSize];
};
template <Name kName>
const Builtin* method() {
  static const Builtin* const kFound = method_named(kName.value);
  return kFound;
}
template <Name kName>
constexpr Builtin::Run kMethod = as_method<method<kName>>;

// Unlike the method, it takes any values.
Value replace(Context& context, const Value& input, Given given) {
  const auto text = [&](const Value& value) {
    return Value::text(context, to_string(context, value));
  };
  const BoundArguments texts{{text(given[0]), text(given[1]), given[2]}, given.raw};
  return method<"replace">()->run(context, text(input), texts);
}

Value as_text(Context& context, const Value& input, Given) {
  return Value::text(context, to_string(context, input));
}

Value title(Context& context, const Value& input, Given) {
  const std::string text = to_string(context, input);
  context.step(text.size() / 8);
  std::string out;
  bool start = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = char_at(text, at).length_bytes;
    const std::string_view character = std::string_view(text).substr(at, length);
    out += start ? to_upper(character) : to_lower(character);
    start = is_space_at(text, at) || std::string_view("-({[<").find(text[at]) != text.npos;
    at += length;
  }
  return Value::text(context, std::move(out));
}

std::string_view escape_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

Value escape(Context& context, const Value& input, Given) {
  std::string out;
  for (const char c : to_string(context, input)) {
    const std::string_view escaped = escape_of(c);
    escaped.empty() ? out.push_back(c) : void(out += escaped);
  }
  return Value::text(context, std::move(out));
}

// Each line but the first (and blank ones) behind `width` blanks, or behind a text.
Value indent(Context& context, const Value& input, Given given) {
  const std::string& text = need_string(context, input, "indent");
  std::string blanks;
  if (given[0].string()) {
    blanks = *given[0].string();
  } else {
    const int64_t width = given.integer_or(context, 0, 4);
    if (width > 256) context.fail("indent takes widths of up to 256");
    blanks.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank_lines = given[2].truthy();
  std::string out = given[1].truthy() ? blanks : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out.push_back(text[i]);
    if (text[i] != '\n') continue;
    const bool blank = i + 1 == text.size() || text[i + 1] == '\n';
    if (blank && !blank_lines) continue;
    out += blanks;
    context.step(1 + blanks.size() / 64);
    context.need(out.size());
  }
  return Value::text(context, std::move(out));
}

Value json(Context& context, const Value& input, Given given) {
  JsonStyle style;
  style.ensure_ascii = given[0].truthy();
  style.sort_keys = given[3].truthy();
  const Value& width = given[1];
  if (width.string()) {
    style.broken = true;
    style.indent = *width.string();
  } else if (width.whole()) {
    if (width.as_integer() > 64) context.fail("tojson takes an indent of up to 64");
    style.broken = true;
    style.indent.assign(static_cast<size_t>(std::max<int64_t>(width.as_integer(), 0)), ' ');
  } else if (!width.undefined() && !width.none()) {
    context.fail(fmt::format("tojson takes an indent that is a number, not {}", width.type_name()));
  }
  if (style.broken) style.item_separator.assign(1, ',');
  if (given.given(2) && !given[2].none()) {
    const Value both = items_of(context, given[2]);
    if (both.list()->items.size() != 2) context.fail("tojson needs two separators");
    style.item_separator = need_string(context, both.list()->items[0], "tojson");
    style.key_separator = need_string(context, both.list()->items[1], "tojson");
  }
  return Value::text(context, to_json(context, input, style));
}

Value truncate(Context& context, const Value& input, Given given) {
  const Value end = Value::text(context, given.string_or(context, 2, "..."));
  const int64_t length = given.integer_or(context, 0, 255);
  const int64_t leeway = given.integer_or(context, 3, 5);
  const int64_t kept_length = length - length_of(context, end);
  if (kept_length < 0 || leeway < 0) context.fail("truncate has no room for its end");
  if (length_of(context, input) - leeway <= length) return input;
  need_string(context, input, "truncate");
  std::string kept =
      *slice(context, input, {Value(None{}), Value(kept_length), Value(None{})}).string();
  if (!given[1].truthy()) kept = kept.substr(0, kept.rfind(' '));  // npos: all of it
  return Value::text(context, kept + *end.string());
}

Value word_count(Context& context, const Value& input, Given) {
  const std::string text = to_string(context, input);
  context.step(text.size() / 8);
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const bool word = c.cls == CharClass::kLetter || c.cls == CharClass::kNumber || text[at] == '_';
    count += word && !inside ? 1 : 0;
    inside = word;
    at += c.length_bytes;
  }
  return Value(count);
}

Value format(Context& context, const Value& input, Given given) {
  const std::string text = to_string(context, input);
  if (!given.raw.named.empty() && !given.raw.positional.empty()) {
    context.fail("format takes values with names or without, not both");
  }
  const Value values = given.raw.named.empty() ? Value::tuple(context, given.raw.positional)
                                               : Value::dict(context, given.raw.named);
  return Value::text(context, format_percent(context, text, values));
}

constexpr Builtin kFilters[] = {
    {"trim", "chars", kMethod<"strip">},
    {"upper", "", kMethod<"upper">},
    {"lower", "", kMethod<"lower">},
    {"capitalize", "", kMethod<"capitalize">},
    {"replace", "old! new! count", replace},
    {"center", "width", kMethod<"center">},
    {"title", "", title},
    {"string", "", as_text},
    {"safe", "", as_text},
    {"escape", "", escape},
    {"e", "", escape},
    {"forceescape", "", escape},
    {"indent", "width first blank", indent},
    {"tojson", "ensure_ascii indent separators sort_keys", json},
    {"truncate", "length killwords end leeway", truncate},
    {"wordcount", "", word_count},
    {"format", "*", format},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

}  // namespace kvern::text::jinja
