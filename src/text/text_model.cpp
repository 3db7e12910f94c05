#include "text/text_model.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/wire.h"
#include "kvern/error.h"

namespace kvern::text {
namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw Error(Code::kInvalidModel, "tokenizer: " + problem);
}

void check_id(const char* name, int32_t id, int32_t size) {
  if (id < 0 || id >= size) {
    fail(fmt::format(
        "{} is {}, but the vocabulary has {} tokens; take the model file from its source "
        "again",
        name, id, size));
  }
}

template <class Map>
int32_t find_part(const Map& ids, std::string_view part, std::string_view merge, size_t index) {
  const auto found = ids.find(part);
  if (found == ids.end()) {
    fail(fmt::format("merge {} '{}' needs the token '{}', which the vocabulary lacks", index, merge,
                     part));
  }
  return found->second;
}

void write_optional(WireWriter& out, const std::optional<int32_t>& id) {
  out.number<int32_t>(id.value_or(-1));
}

std::optional<int32_t> read_optional(WireReader& in, std::string_view name) {
  const auto id = in.number<int32_t>(name);
  if (id < -1) in.fail(name, fmt::format("{} is no token id", id));
  return id == -1 ? std::nullopt : std::optional<int32_t>(id);
}

bool read_flag(WireReader& in, std::string_view name) {
  const auto value = in.number<uint8_t>(name);
  if (value > 1) in.fail(name, fmt::format("a flag is 0 or 1, not {}", value));
  return value == 1;
}

template <class Enum>
Enum read_enum(WireReader& in, uint8_t first, uint8_t last, std::string_view name) {
  const auto value = in.number<uint8_t>(name);
  if (value < first || value > last) {
    in.fail(name,
            fmt::format("{} is none of the known values {} to {}; this plan is damaged or was "
                        "made by a newer Kvern",
                        value, first, last));
  }
  return static_cast<Enum>(value);
}

}  // namespace

void TextModel::validate() const {
  if (kind == TokenizerKind::kNone) {
    if (!tokens.empty() || !merges.empty()) fail("no tokenizer, but a vocabulary");
    return;
  }
  if (tokens.empty()) fail("the vocabulary is empty");
  if (tokens.size() > (1u << 24)) fail(fmt::format("{} tokens; at most 2^24 work", tokens.size()));
  const int32_t size = vocabulary_size();
  if (token_types.size() != tokens.size()) {
    fail(fmt::format("{} token types for {} tokens", token_types.size(), tokens.size()));
  }
  for (size_t i = 0; i < token_types.size(); ++i) {
    if (token_types[i] < TokenType::kNormal || token_types[i] > TokenType::kByte) {
      fail(fmt::format("token {} has type {}; 1 to 6 are defined", i,
                       static_cast<int>(token_types[i])));
    }
  }
  for (const Merge& merge : merges) {
    check_id("a merge's left part", merge.left, size);
    check_id("a merge's right part", merge.right, size);
  }
  if (bos_id) check_id("bos_token_id", *bos_id, size);
  if (eos_id) check_id("eos_token_id", *eos_id, size);
  if (pad_id) check_id("padding_token_id", *pad_id, size);
  if (unk_id) check_id("unknown_token_id", *unk_id, size);
  for (const int32_t id : stop_ids) check_id("a stop id", id, size);
}

TokenizerKind tokenizer_kind_from_name(std::string_view name) {
  if (name == "gpt2") return TokenizerKind::kByteLevelBpe;
  throw Error(
      Code::kUnsupported,
      fmt::format("tokenizer: kind '{}' is not supported; known: gpt2 (byte-level BPE)", name));
}

PreTokenizer pre_tokenizer_from_name(std::string_view name) {
  if (name == "gpt-2" || name == "gpt2") return PreTokenizer::kGpt2;
  if (name == "smollm") return PreTokenizer::kSmolLm;
  throw Error(Code::kUnsupported,
              fmt::format("tokenizer: pre-tokenizer '{}' is not supported; known: gpt-2, smollm. "
                          "Another one would split words differently and give wrong ids",
                          name));
}

std::vector<Merge> parse_merges(std::span<const std::string> tokens,
                                std::span<const std::string> merges) {
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], static_cast<int32_t>(i));
  std::vector<Merge> out;
  out.reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      fail(fmt::format("merge {} '{}' is not two tokens with a space between them", i, merge));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    out.push_back({find_part(ids, left, merge, i), find_part(ids, right, merge, i)});
    find_part(ids, joined, merge, i);
  }
  return out;
}

void write_text_model(WireWriter& out, const TextModel& model) {
  out.number(static_cast<uint8_t>(model.kind));
  out.number(static_cast<uint8_t>(model.pre_tokenizer));
  out.number(static_cast<uint32_t>(model.tokens.size()));
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    out.number(static_cast<uint8_t>(model.token_types[i]));
    out.string(model.tokens[i]);
  }
  out.number(static_cast<uint32_t>(model.merges.size()));
  for (const Merge& merge : model.merges) {
    out.number(merge.left);
    out.number(merge.right);
  }
  write_optional(out, model.bos_id);
  write_optional(out, model.eos_id);
  write_optional(out, model.pad_id);
  write_optional(out, model.unk_id);
  out.number(static_cast<uint32_t>(model.stop_ids.size()));
  for (const int32_t id : model.stop_ids) out.number(id);
  out.number(static_cast<uint8_t>(model.add_bos));
  out.number(static_cast<uint8_t>(model.add_eos));
  out.string(model.chat_template);
}

TextModel read_text_model(WireReader& in) {
  TextModel model;
  model.kind = read_enum<TokenizerKind>(in, 0, 1, "tokenizer kind");
  model.pre_tokenizer = read_enum<PreTokenizer>(in, 0, 1, "pre-tokenizer");
  const uint32_t num_tokens = in.count(sizeof(uint8_t) + sizeof(uint32_t), "vocabulary");
  model.tokens.reserve(num_tokens);
  model.token_types.reserve(num_tokens);
  for (uint32_t i = 0; i < num_tokens; ++i) {
    model.token_types.push_back(read_enum<TokenType>(in, 1, 6, "token type"));
    model.tokens.push_back(in.string("token"));
  }
  const uint32_t num_merges = in.count(2 * sizeof(int32_t), "merges");
  model.merges.reserve(num_merges);
  for (uint32_t i = 0; i < num_merges; ++i) {
    const auto left = in.number<int32_t>("merge");
    model.merges.push_back({left, in.number<int32_t>("merge")});
  }
  model.bos_id = read_optional(in, "bos id");
  model.eos_id = read_optional(in, "eos id");
  model.pad_id = read_optional(in, "pad id");
  model.unk_id = read_optional(in, "unk id");
  const uint32_t num_stop_ids = in.count(sizeof(int32_t), "stop ids");
  for (uint32_t i = 0; i < num_stop_ids; ++i)
    model.stop_ids.push_back(in.number<int32_t>("stop id"));
  model.add_bos = read_flag(in, "add bos");
  model.add_eos = read_flag(in, "add eos");
  model.chat_template = in.string("chat template");
  try {
    model.validate();
  } catch (const Error& error) {
    in.fail("text model", error.what());
  }
  return model;
}

}  // namespace kvern::text
