#include "text/chars_map.h"

#include <utf8proc.h>

#include <cstring>
#include <optional>

#include "kvern/error.h"
#include "text/unicode.h"

namespace kvern::text {
namespace {

// A unit of the double array (Yata's darts-clone): bits 0-7 label, 8 has a leaf, 9 and from 10 on
// the offset to the children, 31 is a leaf.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t leaf_value(uint32_t unit) {
  return unit & 0x7FFFFFFFu;
}
uint32_t label(uint32_t unit) {
  return unit & 0x800000FFu;
}
uint32_t offset(uint32_t unit) {
  return unit >> 10 << ((unit & (1u << 9)) >> 6);
}

// `tokenizers` looks graphemes of this size and longer up only character by character.
constexpr size_t kLongGrapheme_bytes = 6;

// Bytes that are not UTF-8 are graphemes of their own.
size_t grapheme_end(std::string_view text, size_t at) {
  int32_t state = 0;
  CodePoint c = code_point_at(text, at);
  size_t end = at + c.length_bytes;
  while (end < text.size() && c.valid) {
    const CodePoint next = code_point_at(text, end);
    const bool both_ascii = c.value < 0x80 && next.value < 0x80;
    const bool joined = both_ascii ? c.value == '\r' && next.value == '\n'
                                   : next.valid && !utf8proc_grapheme_break_stateful(
                                                       static_cast<int32_t>(c.value),
                                                       static_cast<int32_t>(next.value), &state);
    if (!joined) break;
    end += next.length_bytes;
    c = next;
  }
  return end;
}

}  // namespace

CharsMap::CharsMap(std::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof(trie_bytes)) std::memcpy(&trie_bytes, bytes.data(), 4);
  if (bytes.size() < 4 || trie_bytes > bytes.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
    throw Error(Code::kInvalidModel,
                "tokenizer: the normalisation map (precompiled_charsmap) is damaged; take the "
                "model from its source again");
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), bytes.data() + 4, trie_bytes);
  replacements_ = bytes.substr(4 + trie_bytes);
}

CharsMap::Found CharsMap::find(std::string_view text, bool longest) const {
  Found found{{}, 0};
  size_t at = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size() || label(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (at >= units_.size()) break;
    const uint32_t value = leaf_value(units_[at]);
    if (value >= replacements_.size()) break;
    const std::string_view rest = std::string_view(replacements_).substr(value);
    found = {rest.substr(0, rest.find('\0')), i + 1};
    if (!longest) break;
  }
  return found;
}

void CharsMap::append(std::string_view text, CharsMapMode mode, std::string& out) const {
  if (mode == CharsMapMode::kLongestPrefix) {
    append_longest(text, out);
  } else {
    append_graphemes(text, out);
  }
}

void CharsMap::append_longest(std::string_view text, std::string& out) const {
  for (size_t at = 0; at < text.size();) {
    const Found found = find(text.substr(at), /*longest=*/true);
    if (found.length_bytes > 0) {
      out += found.replacement;
      at += found.length_bytes;
      continue;
    }
    const size_t length = code_point_at(text, at).length_bytes;
    out += text.substr(at, length);
    at += length;
  }
}

void CharsMap::append_graphemes(std::string_view text, std::string& out) const {
  for (size_t at = 0; at < text.size();) {
    const size_t end = grapheme_end(text, at);
    const std::string_view grapheme = text.substr(at, end - at);
    const Found whole =
        grapheme.size() < kLongGrapheme_bytes ? find(grapheme, false) : Found{{}, 0};
    if (whole.length_bytes > 0) {
      out += whole.replacement;
    } else {
      append_characters(grapheme, out);
    }
    at = end;
  }
}

void CharsMap::append_characters(std::string_view text, std::string& out) const {
  for (size_t at = 0; at < text.size();) {
    const size_t length = code_point_at(text, at).length_bytes;
    const std::string_view character = text.substr(at, length);
    const Found found = find(character, false);
    out += found.length_bytes > 0 ? found.replacement : character;
    at += length;
  }
}

}  // namespace kvern::text
