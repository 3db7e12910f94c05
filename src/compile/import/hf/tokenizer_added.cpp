#include <fmt/format.h>

#include "compile/import/hf/tokenizer_json.h"

namespace kvern::import::hf {
void TokenPlaces::put(const TreeView& view, int32_t id, std::string content) {
  const auto size = static_cast<int32_t>(model_.tokens.size());
  if (id < 0 || (id >= size && id - size > holes_left_)) {
    view.fail(fmt::format("token id {} is far outside the vocabulary of {}", id, size));
  }
  if (id >= size) {
    holes_left_ -= id - size;
    model_.tokens.resize(static_cast<size_t>(id) + 1);
    model_.token_types.resize(model_.tokens.size(), text::TokenType::kUnused);
    if (!model_.scores.empty()) model_.scores.resize(model_.tokens.size(), 0.0);
  }
  if (model_.token_types[id] != text::TokenType::kUnused) {
    view.fail(fmt::format("the id {} belongs to two tokens, '{}' and '{}'", id, model_.tokens[id],
                          content));
  }
  model_.tokens[id] = std::move(content);
  model_.token_types[id] = text::TokenType::kNormal;
}

AddedTokens::AddedTokens(text::TextModel& model) : model_(model), places_(model) {
  ids_.reserve(model.tokens.size());
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    ids_.emplace(model.tokens[i], static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < model.added_tokens.size(); ++i) added_[model.added_tokens[i].id] = i;
}

std::optional<int32_t> AddedTokens::find(const std::string& content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

int32_t AddedTokens::place(const TreeView& view, const std::string& content, int32_t id) {
  if (const auto there = find(content)) return *there;
  places_.put(view, id, content);
  ids_.emplace(content, id);
  return id;
}

void AddedTokens::set(int32_t id, bool special, text::AddedToken flags, Flags mode) {
  const auto found = added_.find(id);
  if (found != added_.end() && mode == Flags::kKeep) return;
  model_.token_types[id] = special ? text::TokenType::kControl : text::TokenType::kUserDefined;
  flags.id = id;
  if (found != added_.end()) {
    model_.added_tokens[found->second] = flags;
    return;
  }
  added_[id] = model_.added_tokens.size();
  model_.added_tokens.push_back(flags);
}

void AddedTokens::add(const TreeView& entry, int32_t id, Flags mode) {
  entry.expect(Tree::Kind::kObject, "an object");
  entry.only(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  const std::string content = entry.string("content");
  if (content.empty()) return;
  const bool special = entry.bool_or("special", false);
  text::AddedToken flags;
  flags.left_strip = entry.bool_or("lstrip", false);
  flags.right_strip = entry.bool_or("rstrip", false);
  flags.single_word = entry.bool_or("single_word", false);
  flags.normalized = entry.bool_or("normalized", !special);
  set(place(entry, content, id), special, flags, mode);
}

void AddedTokens::add_special(const TreeView& view, const std::string& content, int32_t id) {
  if (!content.empty()) set(place(view, content, id), /*special=*/true, {}, Flags::kKeep);
}

}  // namespace kvern::import::hf
