// Characters as a pre-tokenizer sees them, and GPT-2's printable form of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::text {

enum class CharClass : uint8_t { kLetter, kNumber, kSpace, kOther };

struct Char {
  CharClass cls;
  uint8_t length_bytes;
};

// Classes of the 128 ASCII characters; those above are looked up by class_of_character.
extern const std::array<CharClass, 128> kAsciiClass;

// The character that starts at text[at] (at < text.size()): \p{L}, \p{N}, White_Space or none of
// them. A byte that starts no valid UTF-8 sequence is one kOther of length 1.
Char class_of_character(std::string_view text, size_t at);

inline Char char_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) [[likely]]
    return {kAsciiClass[byte], 1};
  return class_of_character(text, at);
}

// What the patterns of GPT-4o ask of a character: `upper` is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}],
// `lower` [\p{Ll}\p{Lm}\p{Lo}\p{M}].
struct CaseClass {
  bool upper;
  bool lower;
  bool mark;  // \p{M}
  uint8_t length_bytes;
};
CaseClass case_class_at(std::string_view text, size_t at);

// One character decoded; a byte that starts no valid UTF-8 sequence is itself, with valid = false.
struct CodePoint {
  uint32_t value;
  uint8_t length_bytes;
  bool valid;
};
CodePoint code_point_at(std::string_view text, size_t at);

bool is_white_space(uint32_t c);
bool is_punctuation(uint32_t c);     // \p{P}, and ASCII's symbols
bool is_number(uint32_t c);          // \p{N}
bool is_word_character(uint32_t c);  // \w
bool is_mark_character(uint32_t c);  // \p{M}

// How far the start of `text` is towards one UTF-8 character.
enum class Utf8Start : uint8_t { kComplete, kUnfinished, kInvalid };
struct Utf8Prefix {
  Utf8Start state;
  size_t length_bytes;  // of the character; kUnfinished: what is there of it; kInvalid: 1
};
// `text` is not empty. Overlong forms, surrogates and values above U+10FFFF are invalid from the
// first byte that shows it.
Utf8Prefix utf8_prefix(std::string_view text);

// The UTF-8 text of the character that GPT-2 writes for `byte` ("Ġ" for a space).
std::string byte_to_printable(uint8_t byte);

// The bytes behind a token in GPT-2's form; nothing when it holds a character that is no byte's.
std::optional<std::string> printable_to_bytes(std::string_view token);

// `c` is at most U+10FFFF.
void append_utf8(std::string& out, uint32_t c);

// Character by character, by Unicode's simple case mappings; bytes that are not UTF-8 stay.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

// Where each character begins, and the end: [characters + 1]. A byte that is not UTF-8 counts as
// one.
std::vector<uint32_t> character_starts(std::string_view text);

}  // namespace kvern::text
