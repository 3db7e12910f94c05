// Methods that look for one string in another.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// The part of a string that `start` and `end` (arguments 1 and 2) name, and where it begins.
struct Window {
  Value part;
  int64_t first_character = 0;
  bool exists = true;  // a start behind the end of the string finds nothing, not even ""
  const std::string& text() const { return *part.string(); }
};

Window window(Context& context, const Value& input, Given given) {
  const bool whole = !given.given(1) && !given.given(2);
  if (whole) return {input};
  const int64_t size = length_of(context, input);
  const auto place = [&](size_t i, int64_t absent) {
    const int64_t at = given.integer_or(context, i, absent);
    return at < 0 ? std::max<int64_t>(at < -size ? 0 : at + size, 0) : at;
  };
  const int64_t start = place(1, 0);
  const int64_t end = std::min(place(2, size), size);
  if (start > size || start > end) return {Value::constant(""), start, false};
  return {slice(context, input, {Value(start), Value(end), Value(None{})}), start};
}

template <class Match>
Value any_affix(Context& context, const Value& input, Given given, std::string_view who,
                Match match) {
  const Window where = window(context, input, given);
  const auto matches = [&](const Value& affix) {
    const std::string& text = need_string(context, affix, who);
    context.step(1 + text.size() / 64);
    return where.exists && match(where.text(), text);
  };
  if (!given[0].list() || given[0].list()->kind != ListKind::kTuple) {
    return Value(matches(given[0]));
  }
  const std::vector<Value>& all = given[0].list()->items;
  return Value(std::any_of(all.begin(), all.end(), matches));
}

Value starts_with(Context& context, const Value& input, Given given) {
  return any_affix(
      context, input, given, "startswith()",
      [](std::string_view text, std::string_view affix) { return text.starts_with(affix); });
}

Value ends_with(Context& context, const Value& input, Given given) {
  return any_affix(
      context, input, given, "endswith()",
      [](std::string_view text, std::string_view affix) { return text.ends_with(affix); });
}

Value remove_prefix(Context& context, const Value& input, Given given) {
  const std::string& affix = need_string(context, given[0], "removeprefix()");
  context.step(1 + affix.size() / 64);
  const std::string& text = *input.string();
  return text.starts_with(affix) ? Value::text(context, text.substr(affix.size())) : input;
}

Value remove_suffix(Context& context, const Value& input, Given given) {
  const std::string& affix = need_string(context, given[0], "removesuffix()");
  context.step(1 + affix.size() / 64);
  const std::string& text = *input.string();
  return text.ends_with(affix) ? Value::text(context, text.substr(0, text.size() - affix.size()))
                               : input;
}

enum class End { kFirst, kLast };

// In characters from the start of the string; -1 where there is none.
template <End kEnd>
int64_t place_of(Context& context, const Value& input, Given given) {
  const std::string& wanted = need_string(context, given[0], "find()");
  const Window where = window(context, input, given);
  if (!where.exists) return -1;
  context.step(1 + where.text().size() / 16);
  size_t at = std::string::npos;
  if (kEnd == End::kFirst) {
    at = find_text(context, where.text(), wanted, 0);
  } else if (wanted.empty()) {
    at = where.text().size();
  } else {
    for (size_t next = 0;; ++next) {
      next = find_text(context, where.text(), wanted, next);
      if (next == std::string::npos) break;
      at = next;
    }
  }
  if (at == std::string::npos) return -1;
  return where.first_character +
         length_of(context, Value::text(context, where.text().substr(0, at)));
}

template <End kEnd>
Value find(Context& context, const Value& input, Given given) {
  return Value(place_of<kEnd>(context, input, given));
}

template <End kEnd>
Value index(Context& context, const Value& input, Given given) {
  const int64_t place = place_of<kEnd>(context, input, given);
  if (place < 0) context.fail("index() found no such text");
  return Value(place);
}

Value count(Context& context, const Value& input, Given given) {
  const std::string& wanted = need_string(context, given[0], "count()");
  const Window where = window(context, input, given);
  if (!where.exists) return Value(int64_t{0});
  if (wanted.empty()) return Value(length_of(context, Value::text(context, where.text())) + 1);
  int64_t count = 0;
  for (size_t at = 0;; ++count) {
    at = find_text(context, where.text(), wanted, at);
    if (at == std::string::npos) return Value(count);
    at += wanted.size();
  }
}

constexpr Builtin kMethods[] = {
    {"startswith", "prefix! start end", starts_with},
    {"endswith", "suffix! start end", ends_with},
    {"removeprefix", "prefix!", remove_prefix},
    {"removesuffix", "suffix!", remove_suffix},
    {"find", "sub! start end", find<End::kFirst>},
    {"rfind", "sub! start end", find<End::kLast>},
    {"index", "sub! start end", index<End::kFirst>},
    {"rindex", "sub! start end", index<End::kLast>},
    {"count", "sub! start end", count},
};

}  // namespace

std::span<const Builtin> search_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
