// Whitespace as Python's str sees it.
#pragma once

#include <algorithm>
#include <string_view>

#include "text/unicode.h"

namespace kvern::text::jinja {

// The character that ends `text` (not empty); a byte that is not UTF-8 is one.
inline std::string_view last_character(std::string_view text) {
  for (size_t length = 2; length <= std::min<size_t>(4, text.size()); ++length) {
    const Utf8Prefix prefix = utf8_prefix(text.substr(text.size() - length));
    if (prefix.state == Utf8Start::kComplete && prefix.length_bytes == length) {
      return text.substr(text.size() - length);
    }
  }
  return text.substr(text.size() - 1);
}

// White_Space, and four separators that Python adds.
inline bool is_space_at(std::string_view text, size_t at) {
  return char_at(text, at).cls == CharClass::kSpace || (text[at] >= 0x1C && text[at] <= 0x1F);
}

inline std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_space_at(text, 0)) text.remove_prefix(char_at(text, 0).length_bytes);
  return text;
}

inline std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const std::string_view last = last_character(text);
    if (!is_space_at(last, 0)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

}  // namespace kvern::text::jinja
