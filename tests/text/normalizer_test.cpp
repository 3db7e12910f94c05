#include "text/normalizer.h"

#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "text/unicode_forms.h"

namespace kvern::text {
namespace {

std::string run(std::vector<Step> steps, std::string_view text, Place place = Place::kStart) {
  return Normalizer(steps).apply(text, place);
}

TEST(Normalizer, FormsLeaveWhatIsNotUtf8) {
  EXPECT_EQ(run({{.kind = StepKind::kNfc}}, "e\u0301\xff\u0301x e\u0323\u0302"),
            "\u00e9\xff\u0301x \u1ec7");
  EXPECT_EQ(run({{.kind = StepKind::kNfd}}, "\u00e9\xc3 \uac01"), "e\u0301\xc3 \u1100\u1161\u11a8");
  EXPECT_EQ(run({{.kind = StepKind::kNfkc}}, "\ufb01\u00bd \uff71\uff9e\u00a0"),
            "fi1\u20442 \u30a2\u3099 ");
}

TEST(Normalizer, FormsEqualThoseOfTheWholeText) {
  // Only stretches that may change go through the tables: the borders must not show.
  const std::vector<std::string> parts = {"a",       "e",      "\u0301", "\u0323", "\u00e9",
                                          "\u1100",  "\u1161", "\u11a8", "\u0344", "\u212b",
                                          "x\u0300", "\u4e00", " "};
  for (const std::string& a : parts) {
    for (const std::string& b : parts) {
      for (const std::string& c : parts) {
        const std::string text = a + b + c;
        EXPECT_EQ(normalized(normalized(text, NormalForm::kNfd), NormalForm::kNfc),
                  normalized(text, NormalForm::kNfc))
            << text;
      }
    }
  }
}

TEST(Normalizer, LowerCaseIsFull) {
  EXPECT_EQ(run({{.kind = StepKind::kLowercase}}, "\u0130ST\u01c5\u1e9e\xff"),
            "i\u0307st\u01c6\u00df\xff");
}

TEST(Normalizer, SpacesAndMarks) {
  EXPECT_EQ(run({{.kind = StepKind::kStrip, .left = 1, .right = 1}}, " \u3000a b\u00a0\n"), "a b");
  EXPECT_EQ(run({{.kind = StepKind::kStrip, .left = 1, .right = 0}}, "  "), "");
  EXPECT_EQ(run({{.kind = StepKind::kSqueezeSpaces}}, "  a   b \u2581 "), "a b");
  EXPECT_EQ(run({{.kind = StepKind::kStripAccents}}, "e\u0301\u20dd"), "e");
  EXPECT_EQ(run({{.kind = StepKind::kReplaceRegex, .text = " {2,}", .with = "_"}}, "a   b c"),
            "a_b c");
  EXPECT_EQ(run({{.kind = StepKind::kNmt}}, "a\tb\u200b\x01"), "a b ");
}

TEST(Normalizer, PrependKnowsItsPlace) {
  const auto prepend = [](PrependMode mode) {
    return std::vector<Step>{
        {.kind = StepKind::kPrepend, .text = "_", .left = static_cast<int32_t>(mode)}};
  };
  EXPECT_EQ(run(prepend(PrependMode::kEverywhere), "", Place::kStart), "");
  EXPECT_EQ(run(prepend(PrependMode::kEverywhere), "a", Place::kToken), "_a");
  EXPECT_EQ(run(prepend(PrependMode::kStart), "a", Place::kStart), "_a");
  EXPECT_EQ(run(prepend(PrependMode::kStart), "a", Place::kInside), "a");
  EXPECT_EQ(run(prepend(PrependMode::kPieces), "a", Place::kInside), "_a");
  EXPECT_EQ(run(prepend(PrependMode::kPieces), "a", Place::kToken), "a");
}

TEST(Normalizer, StepsThatAreNoneAndStepsThatExplodeAreRefused) {
  EXPECT_THROW(Normalizer(std::vector<Step>{{.kind = StepKind::kFuse}}), Error);
  EXPECT_THROW(Normalizer(std::vector<Step>{{.kind = StepKind::kReplaceRegex, .text = "("}}),
               Error);
  EXPECT_THROW(run(std::vector<Step>(64, {.kind = StepKind::kReplace, .text = "a", .with = "aa"}),
                   std::string(100, 'a')),
               Error);
}

TEST(Normalizer, DamagedCharsMapsAreRefusedOrHarmless) {
  const auto map = [](const std::string& bytes) {
    return std::vector<Step>{{.kind = StepKind::kCharsMap, .text = bytes}};
  };
  EXPECT_THROW(run(map(""), "a"), Error);
  EXPECT_THROW(run(map(std::string("\x08\0\0\0abc", 7)), "a"), Error);
  EXPECT_THROW(run(map(std::string("\xff\xff\xff\xff....", 8)), "a"), Error);
  for (uint32_t unit : {0u, 0x100u, 0x80000000u, 0xffffffffu, 0x161u, 0x7fffff61u}) {
    std::string bytes("\x08\0\0\0", 4);
    for (int i = 0; i < 2; ++i) bytes.append(reinterpret_cast<const char*>(&unit), 4);
    EXPECT_EQ(run(map(bytes), "abc"), "abc") << unit;
  }
}

}  // namespace
}  // namespace kvern::text
