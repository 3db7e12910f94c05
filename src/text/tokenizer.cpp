#include "text/tokenizer.h"

#include "kvern/error.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/unicode.h"
#include "text/word_cache.h"

namespace kvern::text {
namespace {

// Longer words are rare and would only crowd the cache out.
constexpr size_t kMaxCachedWord = 64;

}  // namespace

struct Tokenizer::State {
  explicit State(const TextModel& model);
  void encode_plain(std::string_view text, WordCache& cache, std::vector<int32_t>& ids) const;
  std::string_view bytes_of(int32_t id) const {
    return std::string_view(bytes).substr(starts[id], starts[id + 1] - starts[id]);
  }

  PreTokenizer pre_tokenizer;
  BpeMerger merger;
  SpecialTokens specials;
  std::string bytes;             // of all tokens, joined
  std::vector<size_t> starts;    // [tokens + 1]
  std::vector<TokenType> types;  // [tokens]
  int32_t prefix_id = -1;        // put in front with add_special; -1: none
  int32_t suffix_id = -1;
};

Tokenizer::State::State(const TextModel& model)
    : pre_tokenizer(model.pre_tokenizer),
      merger(model),
      specials(model),
      types(model.token_types),
      prefix_id(model.add_bos ? model.bos_id.value_or(-1) : -1),
      suffix_id(model.add_eos ? model.eos_id.value_or(-1) : -1) {
  starts.reserve(model.tokens.size() + 1);
  starts.push_back(0);
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const bool verbatim = types[i] == TokenType::kControl || types[i] == TokenType::kUserDefined ||
                          types[i] == TokenType::kUnknown;
    bytes +=
        verbatim ? model.tokens[i] : printable_to_bytes(model.tokens[i]).value_or(model.tokens[i]);
    starts.push_back(bytes.size());
  }
}

void Tokenizer::State::encode_plain(std::string_view text, WordCache& cache,
                                    std::vector<int32_t>& ids) const {
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(pre_tokenizer, text, at);
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (word.size() > kMaxCachedWord) {
      merger.append(word, ids);
      continue;
    }
    WordCache::Entry& entry = cache.at(word);
    const size_t first_id = ids.size();
    if (entry.holds(word)) {
      ids.resize(first_id + entry.num_ids);
      std::copy_n(ids.begin() + entry.first_id, entry.num_ids, ids.begin() + first_id);
      continue;
    }
    merger.append(word, ids);
    entry = {word.data(), static_cast<uint32_t>(word.size()),
             static_cast<uint32_t>(ids.size() - first_id), first_id};
  }
}

Tokenizer::Tokenizer(const TextModel& model) {
  if (model.empty()) {
    throw Error(
        Code::kInvalidArgument,
        "tokenizer: the model carries none, so it takes and gives ids only; pass prompts as "
        "ids");
  }
  model.validate();
  state_ = std::make_unique<const State>(model);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<int32_t> Tokenizer::encode(std::string_view utf8, EncodeOptions options) const {
  std::vector<int32_t> ids;
  ids.reserve(utf8.size() / 3 + 4);
  if (options.add_special && state_->prefix_id >= 0) ids.push_back(state_->prefix_id);
  WordCache cache(utf8.size());
  for (size_t at = 0; at < utf8.size();) {
    const SpecialTokens::Match match = state_->specials.find(utf8, at, options.parse_special);
    state_->encode_plain(utf8.substr(at, match.at - at), cache, ids);
    if (match.length_bytes > 0) ids.push_back(match.id);
    at = match.at + match.length_bytes;
  }
  if (options.add_special && state_->suffix_id >= 0) ids.push_back(state_->suffix_id);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    text += token_bytes(id);
  }
  return text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return {};
  return state_->bytes_of(id);
}

bool Tokenizer::is_special(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return false;
  const TokenType type = state_->types[id];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

int32_t Tokenizer::vocabulary_size() const {
  return static_cast<int32_t>(state_->types.size());
}

}  // namespace kvern::text
