// Finds tokens that stand in text verbatim: control tokens ("<|im_end|>") where the caller allows
// them, user-defined ones always. At one place the longest wins.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/normalizer.h"
#include "text/text_model.h"

namespace kvern::text {

class SpecialTokens {
 public:
  // Which of the model's verbatim tokens: those sought in the text as it came, or those sought in
  // the normalised text.
  enum class Kind : uint8_t { kRaw, kNormalized };
  SpecialTokens(const TextModel& model, const Normalizer& normalizer, Kind kind);

  bool empty() const { return tokens_.empty(); }

  struct Match {
    size_t begin;  // text.size() when there is none
    size_t end;
    int32_t id;
  };
  // The first match at or after `from`, with the spaces that it takes.
  Match find(std::string_view text, size_t from, bool with_control) const;

 private:
  struct Token {
    AddedToken added;
    bool control;
  };
  struct Found {
    size_t end = 0;
    const Token* token = nullptr;
  };
  void insert(const AddedToken& added, bool control, std::string_view text);
  Found longest(std::string_view text, size_t at, bool with_control) const;

  ByteTrie trie_;
  std::vector<Token> tokens_;
  std::array<bool, 256> starts_{};  // bytes with which a token begins
};

}  // namespace kvern::text
