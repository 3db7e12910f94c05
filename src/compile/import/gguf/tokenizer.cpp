#include "compile/import/gguf/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kvern/error.h"
#include "text/known_patterns.h"
#include "text/sentencepiece_steps.h"

namespace kvern::import::gguf {
namespace {

// Keys that are read below, or that change nothing.
constexpr std::array kKnownKeys = {
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
    "tokenizer.ggml.seperator_token_id",  // the format's own spelling
    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_sep_token",  // between the two texts of a pair
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.remove_extra_whitespaces",
    "tokenizer.ggml.precompiled_charsmap",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type_count",
    "tokenizer.chat_template",
};

std::optional<int32_t> read_id(const File& file, const std::string& key) {
  const auto id = file.metadata.find_count(key);
  if (!id) return std::nullopt;
  if (*id > static_cast<uint64_t>(INT32_MAX)) {
    fail(file.name, fmt::format("metadata '{}' is {}, which is no token id", key, *id));
  }
  return static_cast<int32_t>(*id);
}

std::vector<text::TokenType> read_token_types(const File& file, size_t num_tokens,
                                              std::vector<std::string>& warnings) {
  const auto numbers = file.metadata.find_integers("tokenizer.ggml.token_type");
  if (!numbers) {
    warnings.emplace_back("tokenizer: no token types in the file; all tokens are taken as text");
    return std::vector<text::TokenType>(num_tokens, text::TokenType::kNormal);
  }
  std::vector<text::TokenType> types;
  types.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < 1 || number > 6) {
      fail(file.name,
           fmt::format("token {} has type {}; 1 to 6 are defined", types.size(), number));
    }
    types.push_back(static_cast<text::TokenType>(number));
  }
  return types;
}

void read_special_ids(const File& file, text::TextModel& model) {
  model.bos_id = read_id(file, "tokenizer.ggml.bos_token_id");
  model.eos_id = read_id(file, "tokenizer.ggml.eos_token_id");
  model.pad_id = read_id(file, "tokenizer.ggml.padding_token_id");
  model.unk_id = read_id(file, "tokenizer.ggml.unknown_token_id");
  for (const auto& id : {model.eos_id, read_id(file, "tokenizer.ggml.eot_token_id"),
                         read_id(file, "tokenizer.ggml.eom_token_id")}) {
    if (id && std::ranges::find(model.stop_ids, *id) == model.stop_ids.end()) {
      model.stop_ids.push_back(*id);
    }
  }
  // What the format's own tools take for granted: SentencePiece texts begin with BOS.
  const bool bos_by_default = model.kind == text::TokenizerKind::kBpe && model.bos_id.has_value();
  model.add_bos = file.metadata.find_bool("tokenizer.ggml.add_bos_token").value_or(bos_by_default);
  model.add_eos = file.metadata.find_bool("tokenizer.ggml.add_eos_token").value_or(false);
  if (model.add_bos && !model.bos_id) {
    fail(file.name, "asks for a first token at every text, but names no bos_token_id");
  }
  if (model.add_eos && !model.eos_id) {
    fail(file.name, "asks for a last token at every text, but names no eos_token_id");
  }
}

void warn_of_unknown_keys(const File& file, std::vector<std::string>& warnings) {
  for (const std::string& key : file.metadata.keys()) {
    if (key.starts_with("tokenizer.ggml.") &&
        std::ranges::find(kKnownKeys, key) == kKnownKeys.end())
      warnings.push_back(fmt::format("tokenizer: '{}' is not understood and not used", shown(key)));
  }
}

void read_byte_level(const File& file, text::TextModel& model) {
  const auto pre = file.metadata.find_string("tokenizer.ggml.pre");
  if (!pre) {
    unsupported(file.name,
                "does not say how text is split before merging (tokenizer.ggml.pre); a guess "
                "would give wrong ids. Convert the model again");
  }
  text::NamedPreTokenizer named = text::pre_tokenizer_from_name(shown(*pre));
  model.normalizers = std::move(named.normalizers);
  model.splits = std::move(named.splits);
  model.ignore_merges = named.ignore_merges;
  if (!file.metadata.has("tokenizer.ggml.add_bos_token")) {
    model.add_bos = named.add_bos && model.bos_id.has_value();
  }
  const auto merges = file.metadata.find_strings("tokenizer.ggml.merges");
  if (!merges) {
    fail(file.name, "metadata 'tokenizer.ggml.merges' is missing; convert the model again");
  }
  model.merges = text::parse_merges(model.tokens, *merges);
}

void read_sentencepiece(const File& file, text::TextModel& model) {
  const auto scores = file.metadata.find_floats("tokenizer.ggml.scores");
  if (!scores) {
    fail(file.name, "metadata 'tokenizer.ggml.scores' is missing; convert the model again");
  }
  model.scores.assign(scores->begin(), scores->end());
  const auto flag = [&](const char* name, bool otherwise) {
    return file.metadata.find_bool(std::string("tokenizer.ggml.") + name).value_or(otherwise);
  };
  text::SentencePieceOptions options;
  options.add_space_prefix = flag("add_space_prefix", true);
  if (model.kind == text::TokenizerKind::kUnigram) {
    options.remove_extra_spaces = flag("remove_extra_whitespaces", true);
    const auto map = file.metadata.find_integers("tokenizer.ggml.precompiled_charsmap");
    if (map) options.chars_map.assign(map->begin(), map->end());
  }
  text::set_sentencepiece_steps(options, model);
}

void read_chat_templates(const File& file, text::TextModel& model) {
  model.chat_template = file.metadata.find_string("tokenizer.chat_template").value_or("");
  const auto names = file.metadata.find_strings("tokenizer.chat_templates");
  if (!names || names->empty()) return;
  if (!model.chat_template.empty()) {
    model.chat_templates.push_back({"default", model.chat_template});
  }
  for (const std::string& name : *names) {
    const auto source = file.metadata.find_string("tokenizer.chat_template." + name);
    if (!source) {
      fail(file.name, fmt::format("metadata 'tokenizer.chat_template.{}' is missing, which "
                                  "'tokenizer.chat_templates' names",
                                  shown(name)));
    }
    if (name != "default") model.chat_templates.push_back({name, std::string(*source)});
  }
}

// `tokenizer.ggml.model`
text::TokenizerKind kind_from_name(const File& file, std::string_view name) {
  if (name == "gpt2") return text::TokenizerKind::kByteLevelBpe;
  if (name == "llama") return text::TokenizerKind::kBpe;
  if (name == "t5") return text::TokenizerKind::kUnigram;
  unsupported(file.name, fmt::format("tokenizer: kind '{}' is not supported; known: gpt2 "
                                     "(byte-level BPE), llama (SentencePiece BPE), t5 (Unigram)",
                                     shown(name)));
}

}  // namespace

text::TextModel read_tokenizer(const File& file, std::vector<std::string>& warnings) {
  text::TextModel model;
  const auto kind = file.metadata.find_string("tokenizer.ggml.model");
  if (!kind || *kind == "no_vocab") {
    warnings.emplace_back("the file holds no tokenizer: the model takes and gives token ids only");
    return model;
  }
  model.kind = kind_from_name(file, *kind);
  auto tokens = file.metadata.find_strings("tokenizer.ggml.tokens");
  if (!tokens) {
    fail(file.name, "metadata 'tokenizer.ggml.tokens' is missing; convert the model again");
  }
  model.tokens = std::move(*tokens);
  model.token_types = read_token_types(file, model.tokens.size(), warnings);
  read_special_ids(file, model);
  if (model.kind == text::TokenizerKind::kByteLevelBpe) {
    read_byte_level(file, model);
  } else {
    read_sentencepiece(file, model);
  }
  read_chat_templates(file, model);
  warn_of_unknown_keys(file, warnings);
  model.validate();
  model.require_unknown();
  return model;
}

}  // namespace kvern::import::gguf
