#include "text/special_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace kvern::text {
namespace {

bool is_verbatim(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

size_t verbatim_bytes(const TextModel& model) {
  size_t bytes = 64 * model.added_tokens.size();  // normalised texts may be longer
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    if (is_verbatim(model.token_types[i])) bytes += 4 * model.tokens[i].size();
  }
  return bytes;
}

// Where the character before `at` begins.
size_t previous_start(std::string_view text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return start + code_point_at(text, start).length_bytes == at ? start : at - 1;
}

bool word_touches(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    const CodePoint before = code_point_at(text, previous_start(text, begin));
    if (before.valid && is_word_character(before.value)) return true;
  }
  if (end == text.size()) return false;
  const CodePoint behind = code_point_at(text, end);
  return behind.valid && is_word_character(behind.value);
}

bool is_space_at(std::string_view text, size_t at) {
  const CodePoint c = code_point_at(text, at);
  return c.valid && is_white_space(c.value);
}

}  // namespace

SpecialTokens::SpecialTokens(const TextModel& model, const Normalizer& normalizer, Kind kind)
    : trie_(verbatim_bytes(model)) {
  std::vector<AddedToken> all;
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    if (is_verbatim(model.token_types[i])) all.push_back({.id = static_cast<int32_t>(i)});
  }
  for (const AddedToken& added : model.added_tokens) {
    const auto found =
        std::lower_bound(all.begin(), all.end(), added.id,
                         [](const AddedToken& token, int32_t id) { return token.id < id; });
    if (found != all.end() && found->id == added.id) *found = added;
  }
  for (const AddedToken& added : all) {
    if (added.normalized != (kind == Kind::kNormalized)) continue;
    const bool control = model.token_types[added.id] != TokenType::kUserDefined;
    const std::string& text = model.tokens[added.id];
    insert(added, control, added.normalized ? normalizer.apply(text, Place::kToken) : text);
  }
}

void SpecialTokens::insert(const AddedToken& added, bool control, std::string_view text) {
  if (text.empty() || text.size() > 4096) return;
  trie_.insert(text, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back({added, control});
  starts_[static_cast<uint8_t>(text[0])] = true;
}

SpecialTokens::Found SpecialTokens::longest(std::string_view text, size_t at,
                                            bool with_control) const {
  Found found;
  uint32_t node = ByteTrie::kRoot;
  for (size_t end = at; end < text.size();) {
    node = trie_.child(node, static_cast<uint8_t>(text[end++]));
    if (node == ByteTrie::kNoNode) break;
    const int32_t index = trie_.value(node);
    if (index < 0 || (tokens_[index].control && !with_control)) continue;
    found = {end, &tokens_[index]};
  }
  return found;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from,
                                         bool with_control) const {
  if (tokens_.empty()) return {text.size(), text.size(), -1};
  for (size_t at = from; at < text.size();) {
    if (!starts_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const Found found = longest(text, at, with_control);
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    const AddedToken& added = found.token->added;
    if (added.single_word && word_touches(text, at, found.end)) {
      at = found.end;
      continue;
    }
    Match match{at, found.end, added.id};
    while (added.left_strip && match.begin > from) {
      const size_t before = previous_start(text, match.begin);
      if (before < from || !is_space_at(text, before)) break;
      match.begin = before;
    }
    while (added.right_strip && match.end < text.size() && is_space_at(text, match.end)) {
      match.end += code_point_at(text, match.end).length_bytes;
    }
    return match;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace kvern::text
