#include "text/text_model.h"

#include <fmt/format.h>

#include <bitset>
#include <unordered_map>

#include "kvern/error.h"

namespace kvern::text {
namespace {

// Every text is searched for them; the longest that models have is below 100.
constexpr size_t kMaxSoughtToken_bytes = 4096;

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

using Ids = std::unordered_map<std::string_view, int32_t>;

Ids ids_of_tokens(std::span<const std::string> tokens) {
  Ids ids;
  ids.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], static_cast<int32_t>(i));
  return ids;
}

class MergeResolver {
 public:
  explicit MergeResolver(std::span<const std::string> tokens) : ids_(ids_of_tokens(tokens)) {}

  Merge resolve(std::string_view left, std::string_view right, size_t index) {
    joined_.assign(left).append(right);
    const Merge merge{find(left, index), find(right, index)};
    find(joined_, index);
    return merge;
  }

 private:
  int32_t find(std::string_view part, size_t index) const {
    const auto found = ids_.find(part);
    if (found == ids_.end()) {
      fail(fmt::format("merge {} ('{}') needs the token '{}', which the vocabulary lacks", index,
                       joined_, part));
    }
    return found->second;
  }

  Ids ids_;
  std::string joined_;
};

void check_tokens(const TextModel& model) {
  if (model.tokens.empty()) fail("the vocabulary is empty");
  if (model.tokens.size() > (1u << 24)) {
    fail(fmt::format("{} tokens; at most 2^24 work", model.tokens.size()));
  }
  if (model.token_types.size() != model.tokens.size()) {
    fail(
        fmt::format("{} token types for {} tokens", model.token_types.size(), model.tokens.size()));
  }
  for (size_t i = 0; i < model.token_types.size(); ++i) {
    if (model.token_types[i] < TokenType::kNormal || model.token_types[i] > TokenType::kByte) {
      fail(fmt::format("token {} has type {}; 1 to 6 are defined", i,
                       static_cast<int>(model.token_types[i])));
    }
  }
  if (!model.scores.empty() && model.scores.size() != model.tokens.size()) {
    fail(fmt::format("{} scores for {} tokens", model.scores.size(), model.tokens.size()));
  }
  for (const double score : model.scores) {
    if (!(score >= -1e30 && score <= 1e30)) fail(fmt::format("a score of {}", score));
  }
  if (model.kind == TokenizerKind::kUnigram && model.scores.empty()) {
    fail("a Unigram vocabulary without scores");
  }
}

void check_ids(const TextModel& model) {
  const int32_t size = model.vocabulary_size();
  for (const Merge& merge : model.merges) {
    check_id("a merge's left part", merge.left, size);
    check_id("a merge's right part", merge.right, size);
  }
  for (const AddedToken& added : model.added_tokens) check_id("an added token", added.id, size);
  for (int32_t id = 0; id < size; ++id) {
    const auto at = static_cast<size_t>(id);
    const TokenType type = model.token_types[at];
    const bool sought = type == TokenType::kControl || type == TokenType::kUserDefined;
    if (!sought || model.tokens[at].size() <= kMaxSoughtToken_bytes) continue;
    fail(fmt::format("token {}, which is sought verbatim in texts, has {} bytes; {} at most", id,
                     model.tokens[at].size(), kMaxSoughtToken_bytes));
  }
  if (model.bos_id) check_id("bos_token_id", *model.bos_id, size);
  if (model.eos_id) check_id("eos_token_id", *model.eos_id, size);
  if (model.pad_id) check_id("padding_token_id", *model.pad_id, size);
  if (model.unk_id) check_id("unknown_token_id", *model.unk_id, size);
  for (const int32_t id : model.stop_ids) check_id("a stop id", id, size);
  for (const int32_t id : model.prefix_ids) check_id("a token put in front", id, size);
  for (const int32_t id : model.suffix_ids) check_id("a token put behind", id, size);
  if (model.use_unk && !model.unk_id) fail("unknown characters have no token (unk)");
}

}  // namespace

void TextModel::validate() const {
  if (kind == TokenizerKind::kNone) {
    const bool no_vocabulary = tokens.empty() && token_types.empty() && merges.empty() &&
                               scores.empty() && added_tokens.empty();
    if (!no_vocabulary) fail("no tokenizer, but a vocabulary");
    return;
  }
  check_tokens(*this);
  check_ids(*this);
}

void TextModel::require_unknown() const {
  if (kind != TokenizerKind::kUnigram || use_unk) return;
  std::bitset<256> bytes;
  for (const std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) bytes.set(*byte);
  }
  if (byte_fallback && bytes.all()) return;
  throw Error(Code::kUnsupported,
              fmt::format("tokenizer: a Unigram vocabulary without unk_id and with {} of 256 byte "
                          "tokens has no ids for unknown characters",
                          byte_fallback ? bytes.count() : 0));
}

std::vector<Merge> parse_merges(std::span<const std::string> tokens,
                                std::span<const std::string> merges) {
  MergeResolver resolver(tokens);
  std::vector<Merge> out;
  out.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      fail(fmt::format("merge {} '{}' is not two tokens with a space between them", i, merge));
    }
    out.push_back(resolver.resolve(merge.substr(0, space), merge.substr(space + 1), i));
  }
  return out;
}

std::vector<Merge> resolve_merges(std::span<const std::string> tokens,
                                  std::span<const std::pair<std::string, std::string>> merges) {
  MergeResolver resolver(tokens);
  std::vector<Merge> out;
  out.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    out.push_back(resolver.resolve(merges[i].first, merges[i].second, i));
  }
  return out;
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

}  // namespace kvern::text
