#include "text/pre_tokenizer.h"

#include "kvern/error.h"
#include "text/unicode.h"

// The patterns themselves stand in known_patterns.cpp; comments here name their alternatives.

namespace kvern::text {
namespace {

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

// In any case, which for 's' includes the long ſ.
size_t folded_contraction_length(std::string_view text) {
  if (text.substr(1).starts_with("\u017f")) return 3;
  char folded[3] = {'\'', 0, 0};
  const size_t size = std::min<size_t>(text.size(), 3);
  for (size_t i = 1; i < size; ++i) {
    const char c = text[i];
    folded[i] = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return contraction_length(std::string_view(folded, size));
}

size_t run_end(std::string_view text, size_t at, CharClass cls) {
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != cls) break;
    at += c.length_bytes;
  }
  return at;
}

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
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

// kSmolLm: a piece ends before a number, and what ends a piece ends a run of spaces as the end of
// text does.
size_t gpt2_word_end(std::string_view text, size_t at, bool split_digits) {
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

// \s*[\r\n]+|\s+(?!\S)|\s+ with `at` a space: up to the last line end of the run, if it has one.
size_t lines_end(std::string_view text, size_t at) {
  const size_t begin = at;
  size_t last = at;
  size_t after_line = 0;
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != CharClass::kSpace) {
      if (after_line > 0) return after_line;
      return last == begin ? at : last;
    }
    last = at;
    at += c.length_bytes;
    if (is_line_end(text[last])) after_line = at;
  }
  return after_line > 0 ? after_line : at;
}

size_t number_end(std::string_view text, size_t at, int max_digits) {
  for (int i = 0; i < max_digits && at < text.size(); ++i) {
    const Char c = char_at(text, at);
    if (c.cls != CharClass::kNumber) break;
    at += c.length_bytes;
  }
  return at;
}

bool is_mark(std::string_view text, size_t at) {
  return static_cast<uint8_t>(text[at]) >= 0x80 && case_class_at(text, at).mark;
}

// The character's class, combining marks being letters where the pattern takes [\p{L}\p{M}].
template <bool kMarks>
Char letter_class(std::string_view text, size_t at) {
  Char c = char_at(text, at);
  if (kMarks && c.cls == CharClass::kOther && is_mark(text, at)) c.cls = CharClass::kLetter;
  return c;
}

template <bool kMarks>
size_t class_run_end(std::string_view text, size_t at, CharClass cls) {
  while (at < text.size()) {
    const Char c = letter_class<kMarks>(text, at);
    if (c.cls != cls) break;
    at += c.length_bytes;
  }
  return at;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]*, `at` being the first of the run; with `slash`, [\r\n/]*.
template <bool kMarks>
size_t punctuation_end(std::string_view text, size_t at, bool slash) {
  at = class_run_end<kMarks>(text, at, CharClass::kOther);
  while (at < text.size() && (is_line_end(text[at]) || (slash && text[at] == '/'))) ++at;
  return at;
}

// What follows the alternatives for words and numbers; `at` is a space or punctuation.
template <bool kMarks>
size_t other_end(std::string_view text, size_t at, Char first, bool slash) {
  if (first.cls != CharClass::kSpace) return punctuation_end<kMarks>(text, at, slash);
  if (text[at] == ' ' && at + 1 < text.size() &&
      letter_class<kMarks>(text, at + 1).cls == CharClass::kOther) {
    return punctuation_end<kMarks>(text, at + 1, slash);
  }
  return lines_end(text, at);
}

template <bool kMarks>
size_t llama3_word_end(std::string_view text, size_t at, int max_digits) {
  if (text[at] == '\'') {
    const size_t length = folded_contraction_length(text.substr(at));
    if (length > 0) return at + length;
  }
  const Char first = letter_class<kMarks>(text, at);
  const size_t next = at + first.length_bytes;
  if (first.cls == CharClass::kLetter) {
    return class_run_end<kMarks>(text, next, CharClass::kLetter);
  }
  if (first.cls == CharClass::kNumber) return number_end(text, at, max_digits);
  if (!is_line_end(text[at]) && next < text.size()) {
    const Char second = letter_class<kMarks>(text, next);
    if (second.cls == CharClass::kLetter) {
      return class_run_end<kMarks>(text, next + second.length_bytes, CharClass::kLetter);
    }
  }
  return other_end<kMarks>(text, at, first, /*slash=*/false);
}

// [upper]*[lower]+ at `at`, or `at` where it does not match. Marks and letters without case are in
// both classes, so that the first run gives back what the second needs.
size_t capitalized_end(std::string_view text, size_t at) {
  size_t end = at;
  size_t after_shared = at;  // behind the last character of the first run that is in both classes
  while (end < text.size()) {
    const CaseClass c = case_class_at(text, end);
    if (!c.upper) break;
    end += c.length_bytes;
    if (c.lower) after_shared = end;
  }
  size_t lower_end = end;
  while (lower_end < text.size()) {
    const CaseClass c = case_class_at(text, lower_end);
    if (!c.lower) break;
    lower_end += c.length_bytes;
  }
  return lower_end > end ? lower_end : after_shared;
}

// [upper]+[lower]*, only sought where capitalized_end found nothing: the run is upper alone.
size_t upper_end(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CaseClass c = case_class_at(text, at);
    if (!c.upper) break;
    at += c.length_bytes;
  }
  return at;
}

size_t cased_word_end(std::string_view text, size_t at, Char first) {
  const bool may_prefix =
      first.cls != CharClass::kLetter && first.cls != CharClass::kNumber && !is_line_end(text[at]);
  const size_t next = at + first.length_bytes;
  for (const auto match : {capitalized_end, upper_end}) {
    if (may_prefix) {
      const size_t end = match(text, next);
      if (end > next) return end;
    }
    const size_t end = match(text, at);
    if (end > at) return end;
  }
  return at;
}

size_t gpt4o_word_end(std::string_view text, size_t at, bool contractions, int max_digits) {
  const Char first = char_at(text, at);
  if (first.cls == CharClass::kNumber) return number_end(text, at, max_digits);
  const size_t end = cased_word_end(text, at, first);
  if (end > at) {
    if (!contractions || end == text.size() || text[end] != '\'') return end;
    return end + folded_contraction_length(text.substr(end));
  }
  return other_end<false>(text, at, first, /*slash=*/true);
}

}  // namespace

size_t word_end(Scanner scanner, std::string_view text, size_t at) {
  switch (scanner) {
    case Scanner::kGpt2:
      return gpt2_word_end(text, at, /*split_digits=*/false);
    case Scanner::kSmolLm:
      return gpt2_word_end(text, at, /*split_digits=*/true);
    case Scanner::kLlama3:
      return llama3_word_end<false>(text, at, 3);
    case Scanner::kQwen2:
      return llama3_word_end<false>(text, at, 1);
    case Scanner::kQwen35:
      return llama3_word_end<true>(text, at, 1);
    case Scanner::kGpt4o:
      return gpt4o_word_end(text, at, /*contractions=*/true, 3);
    case Scanner::kTekken:
      return gpt4o_word_end(text, at, /*contractions=*/false, 1);
  }
  throw InternalError("pre_tokenizer: a scanner without a number");
}

}  // namespace kvern::text
