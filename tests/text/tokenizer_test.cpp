#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "kvern/error.h"
#include "tests/text/vocabulary.h"
#include "text/detokenizer.h"
#include "text/sentencepiece_steps.h"

namespace kvern::text {
namespace {

using testing::ElementsAre;

constexpr int32_t kFirstMerge = 256;

// The definition, word for word: of all adjacent pairs the lowest rank, the leftmost of equals.
std::vector<int32_t> merged_by_definition(const TextModel& model, std::vector<int32_t> ids) {
  while (true) {
    size_t best = model.merges.size();
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (model.merges[rank] != Merge{ids[i], ids[i + 1]}) continue;
        best = rank;
        place = i;
      }
    }
    if (best == model.merges.size()) return ids;
    ids[place] = kFirstMerge + static_cast<int32_t>(best);
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(Tokenizer, MergesByRankNotFromLeft) {
  const Tokenizer tokenizer(tiny_model({"b c", "a b"}));
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', 256));
}

TEST(Tokenizer, MergesTheLeftmostOfEquals) {
  const Tokenizer tokenizer(tiny_model({"a a"}));
  EXPECT_THAT(tokenizer.encode("aaa"), ElementsAre(256, 'a'));
}

TEST(Tokenizer, ShortAndLongWordsFollowTheDefinition) {
  const TextModel model =
      tiny_model({"a b", "b a", "a a", "ab ab", "aa b", "ba ab", "abab a", "b b", "bb bb"});
  const Tokenizer tokenizer(model);
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::string word;
    std::vector<int32_t> bytes;
    const size_t length = 1 + random() % 90;  // both sides of the switch to a heap
    for (size_t i = 0; i < length; ++i) word.push_back(random() % 2 == 0 ? 'a' : 'b');
    for (const char c : word) bytes.push_back(c);
    ASSERT_EQ(tokenizer.encode(word), merged_by_definition(model, bytes)) << word;
  }
}

TEST(Tokenizer, RepeatedWordsGiveTheSameIds) {
  const Tokenizer tokenizer(tiny_model({"a b", "Ġ ab"}));
  EXPECT_THAT(tokenizer.encode("ab ab abc ab ab"), ElementsAre(256, 257, 257, 'c', 257, 257));
}

TEST(Tokenizer, ControlTokensOnlyWhereAllowedAndLongestFirst) {
  const TextModel model = tiny_model({});
  const Tokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("<|a|>x<|a|>"), ElementsAre(257, 256));
  EXPECT_EQ(tokenizer.encode("<|a|>", {.parse_special = false}).size(), 5u);
}

TEST(Tokenizer, UserDefinedTokensAlways) {
  const Tokenizer tokenizer(tiny_model({}));
  EXPECT_THAT(tokenizer.encode("@@@", {.parse_special = false}), ElementsAre(258, '@'));
}

TEST(Tokenizer, AddsBosAndEosWhereTheModelSaysSo) {
  TextModel model = tiny_model({});
  model.bos_id = 256;
  model.eos_id = 257;
  model.add_bos = true;
  model.add_eos = true;
  const Tokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("z"), ElementsAre(256, 'z', 257));
  EXPECT_THAT(tokenizer.encode("z", {.add_special = false}), ElementsAre('z'));
}

TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  TextModel model = tiny_model({"a b"});
  model.tokens['#'] = "nothing";
  const Tokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("#"), ElementsAre());
  EXPECT_THAT(tokenizer.encode("!#!"), ElementsAre('!', '!'));
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer tokenizer(tiny_model({"a b", "Ġ a", "Ã ©", "0 0"}, Scanner::kSmolLm));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 60, '\0');
    for (char& c : text)
      c = static_cast<char>(random() % 3 == 0 ? random() : "ab é0'\n"[random() % 8]);
    const std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = false});
    ASSERT_EQ(tokenizer.decode(ids, false), text);
  }
}

TEST(Tokenizer, DecodeSkipsControlTokensOnRequest) {
  const Tokenizer tokenizer(tiny_model({}));
  const std::vector<int32_t> ids = {256, 'h', 258, -1, 99999};
  EXPECT_EQ(tokenizer.decode(ids, true), "h@@");
  EXPECT_EQ(tokenizer.decode(ids, false), "<|a|>h@@");
  EXPECT_TRUE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special(258));
  EXPECT_FALSE(tokenizer.is_special(-1));
}

TEST(Tokenizer, FlagsOfAddedTokens) {
  TextModel model = tiny_model({});
  model.added_tokens = {{.id = 256, .left_strip = true},
                        {.id = 257, .right_strip = true},
                        {.id = 258, .single_word = true}};
  const Tokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("a  <|a|> b"), ElementsAre('a', 256, ' ', 'b'));
  EXPECT_THAT(tokenizer.encode("a <|a|>x \n b"), ElementsAre('a', ' ', 257, 'b'));
  EXPECT_THAT(tokenizer.encode("@@ a@@ -@@"), ElementsAre(258, ' ', 'a', '@', '@', ' ', '-', 258));
}

TEST(Tokenizer, SentencePieceSpaceGoesAtTheStartAlone) {
  TextModel model;
  model.kind = TokenizerKind::kBpe;
  for (const char* token : {"\u2581", "a", "\u2581a"}) add_token(model, token, TokenType::kNormal);
  add_token(model, "<0xE9>", TokenType::kByte);
  model.scores = {0, 0, 1, 0};
  set_sentencepiece_steps({}, model);
  const Tokenizer tokenizer(model);
  EXPECT_THAT(tokenizer.encode("a  a\xe9"), ElementsAre(2, 0, 2, 3));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{2, 0, 2, 3}), "a  a\xe9");
  EXPECT_EQ(tokenizer.token_bytes(2), " a");
  StreamDetokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(2), "a");
  EXPECT_EQ(stream.push(2), " a");
  EXPECT_EQ(stream.push(3), "");
  EXPECT_EQ(stream.finish(), "\xe9");
  EXPECT_EQ(stream.push(2), "a");  // as new
  StreamDetokenizer continuing = StreamDetokenizer::continuing(tokenizer);
  EXPECT_EQ(continuing.push(2), " a");
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer(tiny_model({"a b", "Ġ ab"}));
  std::string text;
  for (int i = 0; i < 500; ++i) text += i % 3 == 0 ? " ab" : " ba";
  const std::vector<int32_t> expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += tokenizer.encode(text) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Tokenizer, AQuarterMegabyteWithoutASpaceIsNotQuadratic) {
  const Tokenizer tokenizer(tiny_model({"a a", "aa aa", "aaaa aaaa"}));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 18, 'a')).size(), size_t{1 << 15});
}

TEST(Tokenizer, ModelWithoutOneIsRefused) {
  try {
    const Tokenizer tokenizer{TextModel{}};
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("pass prompts as ids"));
  }
}

}  // namespace
}  // namespace kvern::text
