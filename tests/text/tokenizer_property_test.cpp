// What holds for any text, checked on texts that RapidCheck makes and shrinks.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/text/vocabulary.h"
#include "text/detokenizer.h"
#include "text/known_patterns.h"
#include "text/pre_tokenizer.h"
#include "text/regex.h"
#include "text/sentencepiece_steps.h"
#include "text/tokenizer.h"

namespace kvern::text {
namespace {

// Characters on which patterns differ: cases, letters without case, marks, numbers, spaces.
const std::vector<std::string> kCharacters = {
    "a",    "b",      "l",      "L",      "s",      "S",      "t",      "r",     "e",
    "v",    "D",      "M",      "Z",      "é",      "É",      "ſ",      "ǅ",     "ʰ",
    "ª",    "中",     "あ",     "א",      "\u05b0", "\u0301", "\u20dd", "1",     "2",
    "3",    "٣",      "Ⅷ",      "½",      " ",      " ",      "\t",     "\n",    "\r",
    "\r\n", "\u00a0", "\u3000", "\u0085", "\u2028", "'",      "'",      "!",     "/",
    "/",    "_",      "€",      "😀",      "\u200d", "\u2581", "@@",     "<|a|>", "\x01"};
const std::vector<std::string> kBadBytes = {"\xff",         "\xc3",     "\xe2\x82", "\xf0\x9f",
                                            "\xed\xa0\x80", "\xc0\xaf", "\x80"};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

rc::Gen<std::string> any_text() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kCharacters)),
                      joined);
}

rc::Gen<std::string> any_bytes() {
  std::vector<std::string> all = kCharacters;
  all.insert(all.end(), kBadBytes.begin(), kBadBytes.end());
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(all)),
                      joined);
}

// A verdict of the change, not of the day; RC_PARAMS in the environment wins.
const int kConfigured = setenv("RC_PARAMS", "seed=20261130 max_success=1000 max_size=120", 0);

template <class Property>
void expect_always(const std::string& name, Property&& property) {
  EXPECT_TRUE(rc::check(name, property)) << name;
}

constexpr Scanner kScanners[] = {Scanner::kGpt2,  Scanner::kSmolLm, Scanner::kLlama3,
                                 Scanner::kQwen2, Scanner::kGpt4o,  Scanner::kTekken,
                                 Scanner::kQwen35};

std::vector<std::string> words_of_scanner(Scanner scanner, const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(scanner, text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> words_of_regex(const Regex& regex, const std::string& text) {
  std::vector<std::string> words;
  Regex::Matcher matcher(regex);
  matcher.start(text);
  size_t at = 0;
  while (const auto match = matcher.find(at)) {
    RC_ASSERT(match->begin == at);  // the patterns leave nothing out
    words.push_back(text.substr(at, match->end - at));
    at = match->end;
  }
  RC_ASSERT(at == text.size());
  return words;
}

TEST(TokenizerProperty, ScannersSplitAsTheirPatternsDo) {
  for (const KnownPattern& known : known_patterns()) {
    const Regex regex{std::string(known.pattern)};
    expect_always(std::string(known.pattern), [&] {
      const std::string text = *any_text();
      RC_ASSERT(words_of_scanner(known.scanner, text) == words_of_regex(regex, text));
    });
  }
}

TEST(TokenizerProperty, ByteLevelBpeGivesAnyBytesBack) {
  for (const Scanner scanner : kScanners) {
    const Tokenizer tokenizer(tiny_model({"a b", "Ġ a", "Ã ©", "1 2", "Ġ Ġ"}, scanner));
    expect_always("scanner " + std::to_string(static_cast<int>(scanner)), [&] {
      const std::string text = *any_bytes();
      for (const bool special : {false, true}) {
        const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = special});
        RC_ASSERT(tokenizer.decode(ids, false) == text);
      }
    });
  }
}

// All bytes, the mark and a few pieces: nothing is unknown.
TextModel sentencepiece_model(TokenizerKind kind) {
  TextModel model;
  model.kind = kind;
  model.unk_id = add_token(model, "<unk>", TokenType::kUnknown);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kHex = "0123456789ABCDEF";
    add_token(model, std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">",
              TokenType::kByte);
  }
  for (const char* piece : {"\u2581", "a", "b", "é", "\u2581a", "ab", "\u2581ab", "aab",
                            "\u2581\u2581", "ba", "b\u0301"}) {
    add_token(model, piece, TokenType::kNormal);
  }
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    model.scores.push_back(i < 257 ? 0.0 : -1.0 - static_cast<double>(i % 7));
  }
  set_sentencepiece_steps({}, model);
  return model;
}

TEST(TokenizerProperty, SentencePieceWithByteFallbackGivesAnyBytesBack) {
  for (const TokenizerKind kind : {TokenizerKind::kBpe, TokenizerKind::kUnigram}) {
    const Tokenizer tokenizer(sentencepiece_model(kind));
    expect_always("kind " + std::to_string(static_cast<int>(kind)), [&] {
      std::string text = *any_bytes();
      const auto ids = tokenizer.encode(text, {.parse_special = false});
      for (size_t at; (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, " ");
      RC_ASSERT(tokenizer.decode(ids, false) == text);
    });
  }
}

TEST(TokenizerProperty, StreamsJoinToTheWholeText) {
  const Tokenizer tokenizers[] = {Tokenizer(tiny_model({"a b"})),
                                  Tokenizer(sentencepiece_model(TokenizerKind::kBpe))};
  for (const Tokenizer& tokenizer : tokenizers) {
    expect_always("any ids", [&] {
      const auto ids = *rc::gen::container<std::vector<int32_t>>(
          rc::gen::inRange<int32_t>(-1, tokenizer.vocabulary_size() + 1));
      const bool skip_special = *rc::gen::arbitrary<bool>();
      StreamDetokenizer stream(tokenizer, skip_special);
      std::string text;
      for (const int32_t id : ids) text += stream.push(id);
      RC_ASSERT(text + stream.finish() == tokenizer.decode(ids, skip_special));
    });
  }
}

double best_score(const TextModel& model, std::string_view word) {
  if (word.empty()) return 0;
  double best = -1e30;
  for (size_t i = 257; i < model.tokens.size(); ++i) {
    if (!word.starts_with(model.tokens[i])) continue;
    best = std::max(best, model.scores[i] + best_score(model, word.substr(model.tokens[i].size())));
  }
  return best;
}

TEST(TokenizerProperty, UnigramFindsTheBestOfAllSegmentations) {
  const TextModel model = sentencepiece_model(TokenizerKind::kUnigram);
  const Tokenizer tokenizer(model);
  expect_always("words of known pieces", [&] {
    const std::vector<std::string> letters = {"a", "b", " "};
    const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(letters));
    const std::string text = joined(parts).substr(0, 12);
    double score = 0;
    for (const int32_t id : tokenizer.encode(text)) score += model.scores[id];
    std::string marked = text.empty() ? "" : " " + text;
    for (size_t at; (at = marked.find(' ')) != std::string::npos;) marked.replace(at, 1, "\u2581");
    RC_ASSERT(std::abs(score - best_score(model, marked)) < 1e-9);
  });
}

TEST(TokenizerProperty, CuttingAtMarksChangesNoId) {
  TextModel model = sentencepiece_model(TokenizerKind::kBpe);
  const Tokenizer cutting(model);
  // Tokens that hold a mark inside and cannot be reached: no cuts are made any more.
  for (int byte = 1; byte < 256; ++byte) {
    add_token(model, std::string("zz") + static_cast<char>(byte) + "\u2581zz", TokenType::kNormal);
    model.scores.push_back(-1);
  }
  const Tokenizer whole(model);
  expect_always("any text", [&] {
    const std::string text = *any_bytes();
    RC_ASSERT(cutting.encode(text) == whole.encode(text));
  });
}

}  // namespace
}  // namespace kvern::text
