// SentencePiece's compiled normalisation map: a double array over the UTF-8 texts to replace, then
// the replacements, each ended by a zero byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::text {

// How the map is applied. Stored as numbers in plans: values never change.
enum class CharsMapMode : uint8_t {
  kLongestPrefix = 0,  // SentencePiece: at every place the longest text that the map knows
  kGraphemes = 1,      // `tokenizers`: grapheme by grapheme, else character by character
};

class CharsMap {
 public:
  // Throws Error(kInvalidModel) for a map whose parts do not fit its size.
  explicit CharsMap(std::string_view bytes);

  void append(std::string_view text, CharsMapMode mode, std::string& out) const;

 private:
  struct Found {
    std::string_view replacement;
    size_t length_bytes;  // 0: the map knows no text here
  };
  Found find(std::string_view text, bool longest) const;
  void append_longest(std::string_view text, std::string& out) const;
  void append_graphemes(std::string_view text, std::string& out) const;
  void append_characters(std::string_view text, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace kvern::text
