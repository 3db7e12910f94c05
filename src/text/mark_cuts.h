// Where text may be cut before a run of space marks ("▁") without changing an id: where no token
// holds the byte before it and a mark in a row. Vocabularies trained on words have next to no such
// tokens; short words are merged fast, and they repeat.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kvern::text {

class MarkCuts {
 public:
  static constexpr std::string_view kMark = "\u2581";

  // Forbids what `token`, which a model can make, shows to be no border.
  void forbid(std::string_view token) {
    for (size_t at = token.find(kMark, 1); at != std::string_view::npos;
         at = token.find(kMark, at + 1)) {
      if (!token.substr(0, at).ends_with(kMark)) {
        forbidden_[static_cast<uint8_t>(token[at - 1])] = true;
      }
    }
  }
  void forbid_all() { forbidden_.fill(true); }

  // Calls `word` for each part of `text`, in order.
  template <class Word>
  void cut(std::string_view text, Word&& word) const {
    size_t begin = 0;
    for (size_t at = text.find(kMark, 1); at != std::string_view::npos;
         at = text.find(kMark, at + kMark.size())) {
      if (forbidden_[static_cast<uint8_t>(text[at - 1])] ||
          text.substr(begin, at - begin).ends_with(kMark)) {
        continue;
      }
      word(text.substr(begin, at - begin));
      begin = at;
    }
    word(text.substr(begin));
  }

 private:
  std::array<bool, 256> forbidden_{};
};

}  // namespace kvern::text
