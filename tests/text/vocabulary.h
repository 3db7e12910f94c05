// A vocabulary small enough to work out by hand: all bytes, a few merges, three special tokens.
#pragma once

#include <string>
#include <vector>

#include "text/text_model.h"
#include "text/unicode.h"

namespace kvern::text {

inline int32_t add_token(TextModel& model, std::string token, TokenType type) {
  model.tokens.push_back(std::move(token));
  model.token_types.push_back(type);
  return model.vocabulary_size() - 1;
}

// Ids 0-255 are the bytes, in order; then what `merges` make, in order; then <|a|> and <|a|>x
// (control) and "@@" (user-defined).
inline TextModel tiny_model(const std::vector<std::string>& merges,
                            Scanner scanner = Scanner::kGpt2) {
  TextModel model;
  model.kind = TokenizerKind::kByteLevelBpe;
  model.splits = {scan_step(scanner)};
  for (int byte = 0; byte < 256; ++byte) {
    add_token(model, byte_to_printable(static_cast<uint8_t>(byte)), TokenType::kNormal);
  }
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    add_token(model, merge.substr(0, space) + merge.substr(space + 1), TokenType::kNormal);
  }
  model.merges = parse_merges(model.tokens, merges);
  add_token(model, "<|a|>", TokenType::kControl);
  add_token(model, "<|a|>x", TokenType::kControl);
  add_token(model, "@@", TokenType::kUserDefined);
  return model;
}

}  // namespace kvern::text
