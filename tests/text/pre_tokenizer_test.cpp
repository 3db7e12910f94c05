#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace kvern::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(Scanner kind, std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(kind, text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST(PreTokenizer, Gpt2TakesOneSpaceWithAWord) {
  EXPECT_THAT(words(Scanner::kGpt2, "Hello  big world!"),
              ElementsAre("Hello", " ", " big", " world", "!"));
}

TEST(PreTokenizer, Gpt2KeepsNumbersTogether) {
  EXPECT_THAT(words(Scanner::kGpt2, "a 123b4"), ElementsAre("a", " 123", "b", "4"));
}

TEST(PreTokenizer, SmolLmSplitsDigitsOneByOne) {
  EXPECT_THAT(words(Scanner::kSmolLm, "a 123  4b"),
              ElementsAre("a", " ", "1", "2", "3", "  ", "4", "b"));
}

TEST(PreTokenizer, SmolLmEndsARunOfSpacesAtADigitButNotAtALetter) {
  EXPECT_THAT(words(Scanner::kSmolLm, "   1   x"), ElementsAre("   ", "1", "  ", " x"));
}

TEST(PreTokenizer, ContractionsAreLowerCaseOnly) {
  EXPECT_THAT(words(Scanner::kGpt2, "we'll I'M it's 'verb"),
              ElementsAre("we", "'ll", " I", "'", "M", " it", "'s", " '", "verb"));
}

TEST(PreTokenizer, ContractionsNeedTheirApostropheAtAWordsStart) {
  EXPECT_THAT(words(Scanner::kGpt2, "!'s"), ElementsAre("!'", "s"));
}

TEST(PreTokenizer, ANewlineBeforeAWordStandsAlone) {
  EXPECT_THAT(words(Scanner::kGpt2, "a\n\nb \nc\n"),
              ElementsAre("a", "\n", "\n", "b", " ", "\n", "c", "\n"));
}

TEST(PreTokenizer, ClassesFollowUnicode) {
  // U+00A0 and U+3000 are spaces, but only U+0020 joins a word; ² and Ⅷ are numbers, 数 a letter.
  EXPECT_THAT(words(Scanner::kGpt2, "é数 x²Ⅷ\u00a0ü\u3000!"),
              ElementsAre("é数", " x", "²Ⅷ", "\u00a0", "ü", "\u3000", "!"));
}

TEST(PreTokenizer, InvalidBytesArePunctuation) {
  EXPECT_THAT(words(Scanner::kGpt2, "a\xff\xc3 b\xe2\x82"),
              ElementsAre("a", "\xff\xc3", " b", "\xe2\x82"));
}

}  // namespace
}  // namespace kvern::text
