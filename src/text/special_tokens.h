// Finds tokens that stand in text verbatim: control tokens ("<|im_end|>") where the caller allows
// them, user-defined ones always. At one place the longest wins.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/text_model.h"

namespace kvern::text {

class SpecialTokens {
 public:
  explicit SpecialTokens(const TextModel& model);

  struct Match {
    size_t at;  // text.size() when there is none
    size_t length_bytes;
    int32_t id;
  };
  // The first match at or after `from`.
  Match find(std::string_view text, size_t from, bool with_control) const;

 private:
  struct Token {
    int32_t id;
    bool control;
  };
  std::unordered_map<std::string, Token> tokens_;
  std::array<std::vector<size_t>, 256> lengths_;  // by first byte, longest first
  std::string first_bytes_;                       // every byte that starts a token
};

}  // namespace kvern::text
