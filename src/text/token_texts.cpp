#include "text/token_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "kvern/error.h"
#include "text/unicode.h"
#include "text/unicode_forms.h"

namespace kvern::text {
namespace {

bool is_decoder(StepKind kind) {
  return kind == StepKind::kReplace || kind == StepKind::kMetaspace ||
         (kind >= StepKind::kByteFallback && kind <= StepKind::kStripText);
}

void strip_ends(std::string& text, const Step& step) {
  for (int32_t i = 0; i < step.left && text.starts_with(step.text); ++i) {
    text.erase(0, step.text.size());
  }
  for (int32_t i = 0; i < step.right && text.ends_with(step.text); ++i) {
    text.resize(text.size() - step.text.size());
  }
}

}  // namespace

TokenTexts::TokenTexts(const TextModel& model, const Normalizer& normalizer) {
  bool fused = false;
  for (const Step& step : model.decoders) {
    if (!is_decoder(step.kind)) {
      throw Error(Code::kInvalidModel,
                  fmt::format("tokenizer: step {} is no decoder", static_cast<int>(step.kind)));
    }
    if (step.kind == StepKind::kFuse) fused = true;
    if (step.kind == StepKind::kMetaspace) {
      first_token_drops_spaces_ = step.left != static_cast<int32_t>(PrependScheme::kNever);
    }
    if (step.kind != StepKind::kStripText) continue;
    if (step.text.empty()) throw Error(Code::kInvalidModel, "tokenizer: a decoder strips nothing");
    if (!fused) continue;
    if (step.right > 0 || strip_left_ > 0) {
      throw Error(Code::kUnsupported,
                  "tokenizer: the decoder strips the end of the whole text, which nobody knows "
                  "while text is streamed; a Strip with stop = 0 works");
    }
    strip_text_ = step.text;
    strip_left_ = std::max(step.left, 0);
  }
  starts_.reserve(model.tokens.size() + 1);
  starts_.push_back(0);
  size_t limit = 1 << 20;  // as in add(), for all together
  for (const std::string& token : model.tokens) limit += 64 * token.size();
  std::unordered_map<size_t, std::string> normalized;
  for (const AddedToken& added : model.added_tokens) {
    if (!added.normalized || normalizer.empty()) continue;
    normalized[added.id] = normalizer.apply(model.tokens[added.id], Place::kToken);
  }
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const auto found = normalized.find(i);
    add(model, i, found == normalized.end() ? model.tokens[i] : found->second);
    if (bytes_.size() > limit) {
      throw Error(Code::kInvalidModel,
                  fmt::format("tokenizer: its decoders make more than {} bytes of its tokens; the "
                              "model is damaged",
                              limit));
    }
    starts_.push_back(bytes_.size());
  }
}

void TokenTexts::add(const TextModel& model, size_t index, const std::string& token) {
  const TokenType type = model.token_types[index];
  const bool verbatim =
      type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
  if (model.kind == TokenizerKind::kByteLevelBpe) {
    bytes_ += verbatim ? token : printable_to_bytes(token).value_or(token);
    return;
  }
  std::string text = token;
  bool fused = false;
  for (const Step& step : model.decoders) {
    switch (step.kind) {
      case StepKind::kReplace:
        text = replace_all(text, step.text, step.with);
        break;
      case StepKind::kMetaspace:
        text = replace_all(text, step.text, " ");
        break;
      case StepKind::kByteFallback:
        if (const auto byte = byte_of_token(token)) text.assign(1, static_cast<char>(*byte));
        break;
      case StepKind::kFuse:
        fused = true;
        break;
      default:
        if (!fused) strip_ends(text, step);
        break;
    }
    // A few steps that each double a text would fill any memory.
    if (text.size() > 64 * token.size() + 4096) {
      throw Error(Code::kInvalidModel,
                  fmt::format("tokenizer: its decoders make {} bytes of token {}; the model is "
                              "damaged",
                              text.size(), index));
    }
  }
  bytes_ += text;
}

void TokenTexts::append(int32_t id, bool verbatim, Progress& progress, std::string& out) const {
  std::string_view text = bytes(id);
  const bool first = progress.at_first_token;
  progress.at_first_token = false;
  if (first && first_token_drops_spaces_ && !verbatim) {
    std::ranges::copy_if(text, std::back_inserter(out), [](char c) { return c != ' '; });
    return;
  }
  while (progress.stripped < strip_left_ && !text.empty()) {
    if (!text.starts_with(strip_text_)) {
      progress.stripped = strip_left_;
      break;
    }
    text.remove_prefix(strip_text_.size());
    ++progress.stripped;
  }
  out += text;
}

}  // namespace kvern::text
