// Methods that only strings have; those that are filters too live in jinja_text.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/unicode.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

Value made(Context& context, std::string text) {
  context.charge(text.size());
  return Value(std::move(text));
}

Value split_on_spaces(Context& context, const std::string& text, int64_t left) {
  std::vector<Value> parts;
  size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < text.size()) {
      const Char c = char_at(text, at);
      if ((c.cls == CharClass::kSpace) != spaces) break;
      at += c.length_bytes;
    }
  };
  for (skip(true); at < text.size(); skip(true)) {
    const size_t begin = at;
    if (left-- == 0) {
      parts.emplace_back(text.substr(begin));
      break;
    }
    skip(false);
    context.step();
    parts.emplace_back(text.substr(begin, at - begin));
  }
  return Value::list(context, std::move(parts));
}

Value split(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  context.step(text.size() / 64);
  int64_t left = given.integer_or(context, 1, -1);
  if (!given.given(0) || given[0].none()) return split_on_spaces(context, text, left);
  const std::string& separator = need_string(context, given[0], "split()");
  if (separator.empty()) context.fail("split() needs a separator that is not empty");
  std::vector<Value> parts;
  size_t at = 0;
  while (left-- != 0) {
    const size_t found = find_text(context, text, separator, at);
    if (found == std::string::npos) break;
    context.charge(sizeof(Value) + sizeof(std::string));
    parts.emplace_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return Value::list(context, std::move(parts));
}

Value split_lines(Context& context, const Value& input, Given) {
  const std::string& text = *input.string();
  context.step(text.size() / 64);
  std::vector<Value> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    context.charge(sizeof(Value) + sizeof(std::string));
    lines.emplace_back(text.substr(at, end - at));
    at = end + (text.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return Value::list(context, std::move(lines));
}

// The affix as a string, once its comparison is paid for.
const std::string& affix_of(Context& context, const Value& affix, std::string_view who) {
  const std::string& text = need_string(context, affix, who);
  context.step(1 + text.size() / 64);
  return text;
}

template <class Match>
Value any_affix(Context& context, const Value& affix, std::string_view who, Match match) {
  if (!affix.list()) return Value(match(affix_of(context, affix, who)));
  for (const Value& item : affix.list()->items) {
    if (match(affix_of(context, item, who))) return Value(true);
  }
  return Value(false);
}

Value starts_with(Context& context, const Value& input, Given given) {
  return any_affix(context, given[0], "startswith()",
                   [&](const std::string& affix) { return input.string()->starts_with(affix); });
}

Value ends_with(Context& context, const Value& input, Given given) {
  return any_affix(context, given[0], "endswith()",
                   [&](const std::string& affix) { return input.string()->ends_with(affix); });
}

Value remove_prefix(Context& context, const Value& input, Given given) {
  const std::string& affix = affix_of(context, given[0], "removeprefix()");
  const std::string& text = *input.string();
  return made(context, text.starts_with(affix) ? text.substr(affix.size()) : text);
}

Value remove_suffix(Context& context, const Value& input, Given given) {
  const std::string& affix = affix_of(context, given[0], "removesuffix()");
  const std::string& text = *input.string();
  return made(context, text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text);
}

Value find_method_of_string(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  const size_t at = find_text(context, text, need_string(context, given[0], "find()"), 0);
  if (at == std::string::npos) return Value(int64_t{-1});
  context.charge(at * sizeof(uint32_t));
  return Value(static_cast<int64_t>(character_starts(text.substr(0, at)).size()) - 1);
}

Value count(Context& context, const Value& input, Given given) {
  const std::string& wanted = need_string(context, given[0], "count()");
  if (wanted.empty()) context.unsupported("counting the empty string");
  int64_t count = 0;
  for (size_t at = 0;; ++count) {
    at = find_text(context, *input.string(), wanted, at);
    if (at == std::string::npos) return Value(count);
    at += wanted.size();
  }
}

Value join_method(Context& context, const Value& input, Given given) {
  std::string out;
  bool first = true;
  for (const Value& item : items_of(context, given[0])) {
    if (!first) out += *input.string();
    first = false;
    out += need_string(context, item, "join()");
    context.charge(input.string()->size() + item.string()->size());
  }
  return made(context, std::move(out));
}

// "{} and {name}".format(…), without format specifications.
Value format_method(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  context.step(1 + text.size() / 64);
  context.charge(text.size());
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if (text[i] != '{' && text[i] != '}') {
      out.push_back(text[i]);
      continue;
    }
    if (doubled) {
      out.push_back(text[i++]);
      continue;
    }
    const size_t end = text.find('}', i);
    if (text[i] == '}' || end == std::string::npos)
      context.fail("format(): a brace has no partner");
    const std::string field = text.substr(i + 1, end - i - 1);
    const Value* value = nullptr;
    context.step_search(given.raw.named.size(), field.size());
    if (field.find_first_not_of("0123456789") == std::string::npos && field.size() < 4) {
      const size_t index = field.empty() ? next++ : static_cast<size_t>(std::atoi(field.c_str()));
      if (index < given.raw.positional.size()) value = &given.raw.positional[index];
    }
    for (const auto& [name, named] : given.raw.named) {
      if (name == field) value = &named;
    }
    if (value == nullptr) context.unsupported(fmt::format("format() with the field '{}'", field));
    out += to_string(context, *value);
    i = end;
  }
  return made(context, std::move(out));
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

constexpr Builtin kMethods[] = {
    {"split", "sep maxsplit", split},
    {"splitlines", "", split_lines},
    {"startswith", "prefix", starts_with},
    {"endswith", "suffix", ends_with},
    {"removeprefix", "prefix", remove_prefix},
    {"removesuffix", "suffix", remove_suffix},
    {"find", "sub", find_method_of_string},
    {"count", "sub", count},
    {"join", "iterable", join_method},
    {"format", "*", format_method},
    {"isdigit", "", all_of<CharClass::kNumber>},
    {"isalpha", "", all_of<CharClass::kLetter>},
    {"isalnum", "", all_of<CharClass::kLetter, CharClass::kNumber>},
    {"isspace", "", all_of<CharClass::kSpace>},
};

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
