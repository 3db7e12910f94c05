#include "text/splitter.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "kvern/error.h"

namespace kvern::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(std::vector<Step> steps, std::string_view text,
                               Place place = Place::kStart) {
  std::vector<std::string> out;
  Splitter::Scratch scratch;
  Splitter(steps).split(text, place, scratch,
                        [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

std::vector<Step> split_at(SplitBehavior behavior, bool invert = false) {
  return {{.kind = StepKind::kSplitText, .text = "-", .behavior = behavior, .invert = invert}};
}

// What `tokenizers` documents for "the-final--countdown".
TEST(Splitter, Behaviors) {
  const std::string text = "the-final--countdown";
  EXPECT_THAT(words(split_at(SplitBehavior::kRemoved), text),
              ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(words(split_at(SplitBehavior::kIsolated), text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(words(split_at(SplitBehavior::kMergedWithPrevious), text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(words(split_at(SplitBehavior::kMergedWithNext), text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(words(split_at(SplitBehavior::kContiguous), text),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(words(split_at(SplitBehavior::kRemoved, true), text), ElementsAre("-", "-", "-"));
}

TEST(Splitter, RegexesSeeUnicodeAndSkipWhatIsNotUtf8) {
  const std::vector<Step> steps = {{.kind = StepKind::kSplitRegex, .text = R"(\p{Lu}\p{Ll}*|\s+)"}};
  EXPECT_THAT(words(steps, "ÀéBc\u3000 d\u180e"), ElementsAre("Àé", "Bc", "\u3000 ", "d\u180e"));
  EXPECT_THAT(words(steps, "A\xffZ"), ElementsAre("A", "\xff", "Z"));
}

TEST(Splitter, WhiteSpaceInsideAClass) {
  const std::vector<Step> steps = {{.kind = StepKind::kSplitRegex, .text = R"([^\s\]x]+)"}};
  EXPECT_THAT(words(steps, "ab]cx\u00a0d"), ElementsAre("ab", "]", "c", "x\u00a0", "d"));
}

TEST(Splitter, MetaspaceKnowsItsPlace) {
  const auto metaspace = [](PrependScheme scheme, int32_t split) {
    return std::vector<Step>{{.kind = StepKind::kMetaspace,
                              .text = "_",
                              .left = static_cast<int32_t>(scheme),
                              .right = split}};
  };
  EXPECT_THAT(words(metaspace(PrependScheme::kFirst, 1), "a  b"), ElementsAre("_a", "_", "_b"));
  EXPECT_THAT(words(metaspace(PrependScheme::kFirst, 1), "a", Place::kInside), ElementsAre("a"));
  EXPECT_THAT(words(metaspace(PrependScheme::kAlways, 0), "a b", Place::kInside),
              ElementsAre("_a_b"));
  EXPECT_THAT(words(metaspace(PrependScheme::kAlways, 0), " a"), ElementsAre("_a"));
  EXPECT_THAT(words(metaspace(PrependScheme::kNever, 1), "a b"), ElementsAre("a", "_b"));
}

TEST(Splitter, StepsWorkOnTheWordsOfTheOneBefore) {
  const std::vector<Step> steps = {{.kind = StepKind::kSplitSpaces},
                                   {.kind = StepKind::kPunctuation},
                                   {.kind = StepKind::kDigits, .left = 0}};
  EXPECT_THAT(words(steps, " a12.3! b"), ElementsAre("a", "12", ".", "3", "!", "b"));
}

TEST(Splitter, StepsThatAreNoneAreRefused) {
  EXPECT_THROW(Splitter(std::vector<Step>{{.kind = StepKind::kNfc}}), Error);
  EXPECT_THROW(Splitter(std::vector<Step>{{.kind = StepKind::kScan, .left = 99}}), Error);
  EXPECT_THROW(Splitter(std::vector<Step>{{.kind = StepKind::kMetaspace}}), Error);
  EXPECT_THROW(Splitter(std::vector<Step>{{.kind = StepKind::kSplitRegex, .text = "[a"}}), Error);
}

}  // namespace
}  // namespace kvern::text
