#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/text/vocabulary.h"
#include "text/unicode.h"

namespace kvern::text {
namespace {

TEST(StreamDetokenizer, HoldsACharacterUntilItIsWhole) {
  const Tokenizer tokenizer(tiny_model({}));
  StreamDetokenizer stream(tokenizer);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.push(0xAC), "€");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDetokenizer, LetsGoOfBytesThatCannotBecomeACharacter) {
  const Tokenizer tokenizer(tiny_model({}));
  StreamDetokenizer stream(tokenizer);
  EXPECT_EQ(stream.push(0xFF), "\xff");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('b'),
            "\xe2"
            "b");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.finish(), "\xf0");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDetokenizer, LeavesControlTokensOut) {
  const Tokenizer tokenizer(tiny_model({}));
  StreamDetokenizer skipping(tokenizer);
  EXPECT_EQ(skipping.push(256), "");
  StreamDetokenizer showing(tokenizer, false);
  EXPECT_EQ(showing.push(256), "<|a|>");
}

TEST(StreamDetokenizer, JoinedItEqualsTheWholeDecode) {
  const Tokenizer tokenizer(tiny_model({}));
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(random() % 12);
    for (int32_t& id : ids) id = static_cast<int32_t>(0x80 + random() % 0x83);
    StreamDetokenizer stream(tokenizer, false);
    std::string joined;
    for (const int32_t id : ids) joined += stream.push(id);
    ASSERT_EQ(joined + stream.finish(), tokenizer.decode(ids, false));
  }
}

TEST(StreamDetokenizer, NoPartEndsInsideACharacter) {
  const Tokenizer tokenizer(tiny_model({}));
  std::mt19937 random(12);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i)
      append_utf8(text, std::vector{0x41u, 0xE9u, 0x20ACu, 0x1F600u}[random() % 4]);
    StreamDetokenizer stream(tokenizer);
    std::string joined;
    for (const char c : text) {
      const std::string part = stream.push(static_cast<uint8_t>(c));
      for (size_t at = 0; at < part.size();) {
        const Utf8Prefix prefix = utf8_prefix(std::string_view(part).substr(at));
        ASSERT_EQ(prefix.state, Utf8Start::kComplete);
        at += prefix.length_bytes;
      }
      joined += part;
    }
    ASSERT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace kvern::text
