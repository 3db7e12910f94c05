#include "text/pre_tokenizer.h"

#include "text/unicode.h"

namespace kvern::text {
namespace {

// GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// kSmolLm runs the same pattern on the pieces between digits, each digit being a word of its own: a
// piece ends before a number, and what ends a piece ends a run of spaces as the end of text does.

size_t contraction_length(std::string_view text) {
  if (text.size() < 2) return 0;
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return text.size() > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
      return text.size() > 2 && text[2] == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

size_t run_end(std::string_view text, size_t at, CharClass cls) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != cls) break;
    at += c.length_bytes;
  }
  return at;
}

// `at` is a space. A run before a word leaves its last character to that word's own match.
size_t spaces_end(std::string_view text, size_t at, bool split_digits) {
  const size_t begin = at;
  size_t last = at;
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != CharClass::kSpace) {
      if (split_digits && c.cls == CharClass::kNumber) return at;
      return last == begin ? at : last;
    }
    last = at;
    at += c.length_bytes;
  }
  return at;
}

}  // namespace

size_t word_end(PreTokenizer kind, std::string_view text, size_t at) {
  const bool split_digits = kind == PreTokenizer::kSmolLm;
  if (text[at] == '\'') {
    const size_t length = contraction_length(text.substr(at));
    if (length > 0) return at + length;
  }
  const Char first = char_at(text, at);
  if (first.cls != CharClass::kSpace) {
    const size_t next = at + first.length_bytes;
    return split_digits && first.cls == CharClass::kNumber ? next : run_end(text, next, first.cls);
  }
  if (text[at] == ' ' && at + 1 < text.size()) {
    const Char second = char_at(text, at + 1);
    if (second.cls != CharClass::kSpace && !(split_digits && second.cls == CharClass::kNumber)) {
      return run_end(text, at + 1 + second.length_bytes, second.cls);
    }
  }
  return spaces_end(text, at, split_digits);
}

}  // namespace kvern::text
