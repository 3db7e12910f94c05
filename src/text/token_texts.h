// What tokens stand for as bytes: the model's decoders, worked out once per token, and the one rule
// that they have about the beginning of a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/text_model.h"

namespace kvern::text {

class TokenTexts {
 public:
  // Throws Error(kInvalidModel) for a step that is no decoder, Error(kUnsupported) for an order of
  // decoders that would need the end of the text.
  // Tokens that are sought in normalised text decode to their own normalised text.
  TokenTexts(const TextModel& model, const Normalizer& normalizer);

  std::string_view bytes(int32_t id) const {
    return std::string_view(bytes_).substr(starts_[id], starts_[id + 1] - starts_[id]);
  }

  // How far a text has been decoded; a new one stands at the beginning.
  struct Progress {
    bool at_first_token = true;
    int32_t stripped = 0;
  };
  // Where text goes on that others began, nothing is stripped.
  Progress continued() const { return {.at_first_token = false, .stripped = strip_left_}; }

  void append(int32_t id, bool verbatim, Progress& progress, std::string& out) const;

 private:
  void add(const TextModel& model, size_t index, const std::string& token);

  std::string bytes_;           // of all tokens, joined
  std::vector<size_t> starts_;  // [tokens + 1]
  // At the beginning of a text: this many of `strip_text_` go, over token borders …
  std::string strip_text_;
  int32_t strip_left_ = 0;
  // … or every space of the first token (Metaspace).
  bool first_token_drops_spaces_ = false;
};

}  // namespace kvern::text
