#include "text/special_tokens.h"

#include <algorithm>

namespace kvern::text {

SpecialTokens::SpecialTokens(const TextModel& model) {
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const TokenType type = model.token_types[i];
    const bool control = type == TokenType::kControl || type == TokenType::kUnknown;
    const std::string& token = model.tokens[i];
    if ((!control && type != TokenType::kUserDefined) || token.empty()) continue;
    tokens_.emplace(token, Token{static_cast<int32_t>(i), control});
    std::vector<size_t>& lengths = lengths_[static_cast<uint8_t>(token[0])];
    if (lengths.empty()) first_bytes_.push_back(token[0]);
    lengths.push_back(token.size());
  }
  for (std::vector<size_t>& lengths : lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from,
                                         bool with_control) const {
  while ((from = text.find_first_of(first_bytes_, from)) < text.size()) {
    for (const size_t length : lengths_[static_cast<uint8_t>(text[from])]) {
      if (length > text.size() - from) continue;
      const auto found = tokens_.find(std::string(text.substr(from, length)));
      if (found == tokens_.end() || (found->second.control && !with_control)) continue;
      return {from, length, found->second.id};
    }
    ++from;
  }
  return {text.size(), 0, -1};
}

}  // namespace kvern::text
