#include "text/unicode.h"

#include <utf8proc.h>

namespace kvern::text {
namespace {

constexpr std::array<CharClass, 128> make_ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    classes[c] = letter                 ? CharClass::kLetter
                 : c >= '0' && c <= '9' ? CharClass::kNumber
                 : space                ? CharClass::kSpace
                                        : CharClass::kOther;
  }
  return classes;
}

// White_Space above ASCII. Not category Z alone: U+0085 is a control character.
bool is_space(int32_t c) {
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

CharClass classify(int32_t c) {
  if (is_space(c)) return CharClass::kSpace;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::kNumber;
    default:
      return CharClass::kOther;
  }
}

int32_t decode(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<int32_t>(static_cast<uint8_t>(text[i])); };
  if (length == 1) return byte(0);
  if (length == 2) return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (length == 3) return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

struct ByteTable {
  std::array<uint16_t, 256> printable{};  // byte -> code point
  std::array<int16_t, 512> byte{};        // code point -> byte, or -1
};

// Bytes that print as themselves in Latin-1 keep their number; the others follow from U+0100 on.
constexpr ByteTable make_byte_table() {
  ByteTable table;
  for (int16_t& b : table.byte) b = -1;
  uint16_t next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    table.printable[b] = prints ? static_cast<uint16_t>(b) : next++;
    table.byte[table.printable[b]] = static_cast<int16_t>(b);
  }
  return table;
}

constexpr ByteTable kByteTable = make_byte_table();

}  // namespace

CaseClass case_class_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) {
    return {byte >= 'A' && byte <= 'Z', byte >= 'a' && byte <= 'z', false, 1};
  }
  const CodePoint c = code_point_at(text, at);
  if (!c.valid) return {false, false, false, 1};
  switch (utf8proc_category(static_cast<int32_t>(c.value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return {true, false, false, c.length_bytes};
    case UTF8PROC_CATEGORY_LL:
      return {false, true, false, c.length_bytes};
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return {true, true, false, c.length_bytes};
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return {true, true, true, c.length_bytes};
    default:
      return {false, false, false, c.length_bytes};
  }
}

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return {byte, 1, true};
  const std::string_view rest = text.substr(at, 4);
  const Utf8Prefix prefix = utf8_prefix(rest);
  if (prefix.state != Utf8Start::kComplete) return {byte, 1, false};
  return {static_cast<uint32_t>(decode(rest, prefix.length_bytes)),
          static_cast<uint8_t>(prefix.length_bytes), true};
}

bool is_white_space(uint32_t c) {
  return c < 128 ? kAsciiClass[c] == CharClass::kSpace : is_space(static_cast<int32_t>(c));
}

bool is_punctuation(uint32_t c) {
  if (c < 128) return c > 32 && c < 127 && kAsciiClass[c] == CharClass::kOther;
  const int category = utf8proc_category(static_cast<int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_number(uint32_t c) {
  if (c < 128) return kAsciiClass[c] == CharClass::kNumber;
  const int category = utf8proc_category(static_cast<int32_t>(c));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_mark_character(uint32_t c) {
  if (c < 128) return false;
  const int category = utf8proc_category(static_cast<int32_t>(c));
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

// Alphabetic, marks, decimal digits, connecting punctuation and joiners (Unicode TR 18, annex C).
bool is_word_character(uint32_t c) {
  if (c < 128) return kAsciiClass[c] <= CharClass::kNumber || c == '_';
  if (c == 0x200C || c == 0x200D) return true;
  const bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  if (circled) return true;
  switch (utf8proc_category(static_cast<int32_t>(c))) {
    case UTF8PROC_CATEGORY_NO:
      return false;
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return classify(static_cast<int32_t>(c)) <= CharClass::kNumber || is_mark_character(c);
  }
}

constexpr std::array<CharClass, 128> kAsciiClass = make_ascii_classes();

Utf8Prefix utf8_prefix(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {Utf8Start::kComplete, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Start::kInvalid, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Start::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;   // shorter forms exist
      if (lead == 0xED) high = 0x9F;  // surrogates
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
    }
    if (byte < low || byte > high) return {Utf8Start::kInvalid, 1};
  }
  return {Utf8Start::kComplete, length};
}

Char class_of_character(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at, 4);
  const Utf8Prefix prefix = utf8_prefix(rest);
  if (prefix.state != Utf8Start::kComplete) return {CharClass::kOther, 1};
  return {classify(decode(rest, prefix.length_bytes)), static_cast<uint8_t>(prefix.length_bytes)};
}

std::string byte_to_printable(uint8_t byte) {
  const uint16_t c = kByteTable.printable[byte];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

std::optional<std::string> printable_to_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const std::string_view rest = token.substr(at, 4);
    const Utf8Prefix prefix = utf8_prefix(rest);
    if (prefix.state != Utf8Start::kComplete || prefix.length_bytes > 2) return std::nullopt;
    const int32_t c = decode(rest, prefix.length_bytes);
    if (c >= 512 || kByteTable.byte[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteTable.byte[c]));
    at += prefix.length_bytes;
  }
  return bytes;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (c >> shift & 0x3F)));
  };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

namespace {

std::string map_characters(std::string_view text, int32_t (*map)(int32_t)) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at, 4);
    const Utf8Prefix prefix = utf8_prefix(rest);
    if (prefix.state == Utf8Start::kComplete) {
      append_utf8(out, static_cast<uint32_t>(map(decode(rest, prefix.length_bytes))));
      at += prefix.length_bytes;
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
  return map_characters(text, utf8proc_toupper);
}

std::string to_lower(std::string_view text) {
  return map_characters(text, utf8proc_tolower);
}

std::vector<uint32_t> character_starts(std::string_view text) {
  std::vector<uint32_t> starts;
  for (size_t at = 0; at < text.size();) {
    starts.push_back(static_cast<uint32_t>(at));
    const Utf8Prefix prefix = utf8_prefix(text.substr(at, 4));
    at += prefix.state == Utf8Start::kComplete ? prefix.length_bytes : 1;
  }
  starts.push_back(static_cast<uint32_t>(text.size()));
  return starts;
}

}  // namespace kvern::text
