#include "compile/import/hf/join_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compile/import/hf/config.h"
#include "compile/import/hf/generation.h"
#include "compile/import/hf/tokenizer.h"

namespace kvern::import::hf {
namespace {

bool has_tokenizer(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::path path(folder);
  return std::filesystem::exists(path / "tokenizer.json", ignored) ||
         std::filesystem::exists(path / "tokenizer.model", ignored);
}

// True when an id of the text model that is not a token of its own is `size` or above.
bool refers_beyond(const text::TextModel& text, int32_t size) {
  const auto beyond = [&](int32_t id) { return id >= size; };
  for (const auto& id : {text.bos_id, text.eos_id, text.pad_id, text.unk_id}) {
    if (id && beyond(*id)) return true;
  }
  for (const auto* ids : {&text.stop_ids, &text.prefix_ids, &text.suffix_ids}) {
    if (std::ranges::any_of(*ids, beyond)) return true;
  }
  return std::ranges::any_of(text.merges, [&](const text::Merge& merge) {
    return beyond(merge.left) || beyond(merge.right);
  });
}

}  // namespace

bool drop_foreign_tokens(int64_t vocabulary_size, text::TextModel& text) {
  if (text.vocabulary_size() <= vocabulary_size) return true;
  const auto size = static_cast<int32_t>(vocabulary_size);
  if (refers_beyond(text, size)) return false;
  const auto first = text.token_types.begin() + size;
  const bool ordinary = std::any_of(first, text.token_types.end(), [](text::TokenType type) {
    return type == text::TokenType::kNormal || type == text::TokenType::kByte;
  });
  if (ordinary) return false;
  std::erase_if(text.added_tokens, [&](const text::AddedToken& token) { return token.id >= size; });
  const auto count = static_cast<size_t>(size);
  text.tokens.resize(count);
  text.token_types.resize(count);
  if (!text.scores.empty()) text.scores.resize(count);
  text.validate();
  return true;
}

void join_tokenizer(const std::string& folder, ImportedModel& model) {
  if (!has_tokenizer(folder)) {
    model.warnings.emplace_back(
        "the folder holds no tokenizer: the model takes and gives token ids only");
    return;
  }
  model.text = read_tokenizer(folder);
  const int32_t num_tokens = model.text.vocabulary_size();
  if (!drop_foreign_tokens(model.vocabulary_size, model.text)) {
    fail("tokenizer", fmt::format("it has {} tokens, the model {}; the two do not belong together",
                                  num_tokens, model.vocabulary_size));
  }
  if (num_tokens > model.vocabulary_size) {
    model.warnings.push_back(
        fmt::format("tokenizer: {} added tokens have ids beyond the model's {} and are left out",
                    num_tokens - model.text.vocabulary_size(), model.vocabulary_size));
  }
  const std::vector<int64_t> ids(model.text.stop_ids.begin(), model.text.stop_ids.end());
  add_stop_ids(ids, "tokenizer", model);
}

}  // namespace kvern::import::hf
