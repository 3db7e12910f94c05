#include "text/tokenizer.h"

#include <algorithm>
#include <optional>

#include "kvern/error.h"
#include "text/bpe.h"
#include "text/mark_cuts.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/splitter.h"
#include "text/unigram.h"
#include "text/word_cache.h"

namespace kvern::text {
namespace {

// Longer words are rare and would only crowd the cache out.
constexpr size_t kMaxCachedWord = 64;

std::vector<int32_t> ids_around(const std::vector<int32_t>& named, bool wanted,
                                const std::optional<int32_t>& id) {
  if (!named.empty()) return named;
  return wanted && id ? std::vector<int32_t>{*id} : std::vector<int32_t>{};
}

// The one scanner that is the whole way to words, which needs no steps in between.
std::optional<Scanner> lone_scanner(const TextModel& model) {
  const bool lone = model.splits.size() == 1 && model.splits[0].kind == StepKind::kScan;
  if (!lone) return std::nullopt;
  return static_cast<Scanner>(model.splits[0].left);
}

}  // namespace

struct Tokenizer::State {
  explicit State(const TextModel& model);

  TokenTable table;
  Normalizer normalizer;
  Splitter splitter;
  std::optional<Scanner> scanner;
  std::optional<BpeMerger> merger;  // one of these two
  std::optional<UnigramSegmenter> segmenter;
  SpecialTokens raw_specials;
  SpecialTokens normalized_specials;
  TokenTexts texts;
  std::vector<TokenType> types;     // [tokens]
  std::vector<int32_t> prefix_ids;  // put in front with add_special
  std::vector<int32_t> suffix_ids;
  MarkCuts cuts;
};

Tokenizer::State::State(const TextModel& model)
    : table(model.tokens,
            model.kind == TokenizerKind::kUnigram ? Duplicates::kLast : Duplicates::kFirst),
      normalizer(model.normalizers),
      splitter(model.splits),
      scanner(lone_scanner(model)),
      raw_specials(model, normalizer, SpecialTokens::Kind::kRaw),
      normalized_specials(model, normalizer, SpecialTokens::Kind::kNormalized),
      texts(model, normalizer),
      types(model.token_types),
      prefix_ids(ids_around(model.prefix_ids, model.add_bos, model.bos_id)),
      suffix_ids(ids_around(model.suffix_ids, model.add_eos, model.eos_id)) {
  if (model.kind == TokenizerKind::kUnigram) {
    segmenter.emplace(model, table);
    segmenter->forbid_cuts(cuts);
  } else {
    merger.emplace(model, table);
    merger->forbid_cuts(cuts);
  }
}

namespace {

// One encode() call.
template <class State>
class Encoding {
 public:
  Encoding(const State& state, std::string_view text, bool parse_special, std::vector<int32_t>& ids)
      : state_(state), parse_special_(parse_special), cache_(text.size()), ids_(ids) {}

  // `text` as it came: verbatim tokens, and what lies between them.
  void run(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const SpecialTokens::Match match = state_.raw_specials.find(text, at, parse_special_);
      append_piece(text.substr(at, match.begin - at), at == 0 ? Place::kStart : Place::kInside);
      if (match.id >= 0) ids_.push_back(match.id);
      at = match.end;
    }
  }

 private:
  void append_piece(std::string_view piece, Place place) {
    if (piece.empty()) return;
    if (!state_.normalizer.empty()) {
      piece = scratch_.texts.emplace_back(state_.normalizer.apply(piece, place));
    }
    for (size_t at = 0; at < piece.size();) {
      const auto match = state_.normalized_specials.find(piece, at, parse_special_);
      split(piece.substr(at, match.begin - at), at == 0 ? place : Place::kInside);
      if (match.id >= 0) ids_.push_back(match.id);
      at = match.end;
    }
  }

  void split(std::string_view text, Place place) {
    if (state_.scanner) {
      for (size_t at = 0; at < text.size();) {
        const size_t end = word_end(*state_.scanner, text, at);
        append_word(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    state_.splitter.split(text, place, scratch_, [&](std::string_view word) {
      state_.cuts.cut(word, [&](std::string_view part) { append_word(part); });
    });
  }

  void append_word(std::string_view word) {
    if (word.size() > kMaxCachedWord) return append_model(word);
    WordCache::Entry& entry = cache_.at(word);
    const size_t first_id = ids_.size();
    if (entry.holds(word)) {
      ids_.resize(first_id + entry.num_ids);
      std::copy_n(ids_.begin() + entry.first_id, entry.num_ids, ids_.begin() + first_id);
      return;
    }
    append_model(word);
    entry = {word.data(), static_cast<uint32_t>(word.size()),
             static_cast<uint32_t>(ids_.size() - first_id), first_id};
  }

  void append_model(std::string_view word) {
    if (state_.merger) {
      state_.merger->append(word, ids_);
    } else {
      state_.segmenter->append(word, ids_);
    }
  }

  const State& state_;
  bool parse_special_;
  WordCache cache_;
  Splitter::Scratch scratch_;
  std::vector<int32_t>& ids_;
};

}  // namespace

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
  if (options.add_special) ids = state_->prefix_ids;
  Encoding<State>(*state_, utf8, options.parse_special, ids).run(utf8);
  if (options.add_special) {
    ids.insert(ids.end(), state_->suffix_ids.begin(), state_->suffix_ids.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  TokenTexts::Progress progress;
  for (const int32_t id : ids) decode_next(id, skip_special, progress, text);
  return text;
}

void Tokenizer::decode_next(int32_t id, bool skip_special, TokenTexts::Progress& progress,
                            std::string& out) const {
  if (id < 0 || id >= vocabulary_size() || (skip_special && is_special(id))) return;
  const TokenType type = state_->types[id];
  const bool verbatim = type == TokenType::kControl || type == TokenType::kUserDefined;
  state_->texts.append(id, verbatim, progress, out);
}

TokenTexts::Progress Tokenizer::continued() const {
  return state_->texts.continued();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return {};
  return state_->texts.bytes(id);
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
