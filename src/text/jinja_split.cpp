// Methods that take strings apart.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_builtin.h"
#include "text/jinja_search.h"
#include "text/jinja_space.h"

namespace kvern::text::jinja {
namespace {

using Given = const BoundArguments&;

// Where `wanted` stands last in `text` before `end`, paid for.
size_t find_last(Context& context, std::string_view text, const std::string& wanted, size_t end) {
  if (wanted.size() > end) return std::string::npos;
  context.step(1 + wanted.size() / 64);
  for (size_t at = end - wanted.size() + 1; at-- > 0;) {
    if (at % 64 == 0) context.step();
    if (text[at] != wanted[0]) continue;
    context.step(1 + wanted.size() / 64);
    if (text.compare(at, wanted.size(), wanted) == 0) return at;
  }
  return std::string::npos;
}

const std::string& need_separator(Context& context, const Value& value) {
  const std::string& separator = need_string(context, value, "a separator");
  if (separator.empty()) context.fail("a separator cannot be empty");
  return separator;
}

std::vector<Value> words(Context& context, std::string_view text, int64_t left) {
  std::vector<Value> parts;
  while (!(text = without_leading_space(text)).empty()) {
    context.step();
    size_t end = 0;
    if (left-- == 0) {
      end = text.size();
    } else {
      while (end < text.size() && !is_space_at(text, end)) end += char_at(text, end).length_bytes;
    }
    parts.push_back(Value::text(context, std::string(text.substr(0, end))));
    text.remove_prefix(end);
  }
  return parts;
}

Value split(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  context.step(text.size() / 64);
  int64_t left = given.integer_or(context, 1, -1);
  if (!given.given(0) || given[0].none()) return Value::list(context, words(context, text, left));
  const std::string& separator = need_separator(context, given[0]);
  std::vector<Value> parts;
  size_t at = 0;
  while (left-- != 0) {
    const size_t found = find_text(context, text, separator, at);
    if (found == std::string::npos) break;
    parts.push_back(Value::text(context, text.substr(at, found - at)));
    at = found + separator.size();
  }
  parts.push_back(Value::text(context, text.substr(at)));
  return Value::list(context, std::move(parts));
}

std::vector<Value> words_from_right(Context& context, std::string_view text, int64_t left) {
  std::vector<Value> parts;
  while (!(text = without_trailing_space(text)).empty()) {
    context.step();
    std::string_view rest = text;
    if (left-- == 0) {
      rest = {};
    } else {
      while (!rest.empty() && !is_space_at(last_character(rest), 0)) {
        rest.remove_suffix(last_character(rest).size());
      }
    }
    parts.push_back(Value::text(context, std::string(text.substr(rest.size()))));
    text = rest;
  }
  return parts;
}

Value split_from_right(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  context.step(text.size() / 64);
  int64_t left = given.integer_or(context, 1, -1);
  std::vector<Value> parts;
  if (!given.given(0) || given[0].none()) {
    parts = words_from_right(context, text, left);
  } else {
    const std::string& separator = need_separator(context, given[0]);
    size_t end = text.size();
    while (left-- != 0) {
      const size_t found = find_last(context, text, separator, end);
      if (found == std::string::npos) break;
      const size_t begin = found + separator.size();
      parts.push_back(Value::text(context, text.substr(begin, end - begin)));
      end = found;
    }
    parts.push_back(Value::text(context, text.substr(0, end)));
  }
  std::reverse(parts.begin(), parts.end());
  return Value::list(context, std::move(parts));
}

// How many bytes end a line at `at`: 0 when none does.
size_t line_end(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == '\r') return text.substr(at, 2) == "\r\n" ? 2 : 1;
  if ((byte >= '\n' && byte <= '\f') || (byte >= 0x1C && byte <= 0x1E)) return 1;
  if (text.substr(at, 2) == "\xC2\x85") return 2;
  const std::string_view three = text.substr(at, 3);
  return three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9" ? 3 : 0;
}

Value split_lines(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  context.step(text.size() / 16);
  const bool keep_ends = given[0].truthy();
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = line_end(text, at);
    at += std::max<size_t>(length, 1);
    if (length == 0 && at < text.size()) continue;
    const size_t end = keep_ends || length == 0 ? at : at - length;
    lines.push_back(Value::text(context, text.substr(begin, end - begin)));
    begin = at;
  }
  return Value::list(context, std::move(lines));
}

Value three_parts(Context& context, const std::string& text, size_t at, size_t length) {
  return Value::tuple(context, {Value::text(context, text.substr(0, at)),
                                Value::text(context, text.substr(at, length)),
                                Value::text(context, text.substr(at + length))});
}

Value partition(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  const std::string& separator = need_separator(context, given[0]);
  const size_t at = find_text(context, text, separator, 0);
  return at == std::string::npos ? three_parts(context, text, text.size(), 0)
                                 : three_parts(context, text, at, separator.size());
}

Value partition_from_right(Context& context, const Value& input, Given given) {
  const std::string& text = *input.string();
  const std::string& separator = need_separator(context, given[0]);
  const size_t at = find_last(context, text, separator, text.size());
  return at == std::string::npos ? three_parts(context, text, 0, 0)
                                 : three_parts(context, text, at, separator.size());
}

constexpr Builtin kMethods[] = {
    {"split", "sep maxsplit", split},
    {"rsplit", "sep maxsplit", split_from_right},
    {"splitlines", "keepends", split_lines},
    {"partition", "sep!", partition},
    {"rpartition", "sep!", partition_from_right},
};

}  // namespace

std::span<const Builtin> split_methods() {
  return kMethods;
}

}  // namespace kvern::text::jinja
