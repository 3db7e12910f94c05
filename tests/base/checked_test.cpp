#include "base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/check.h"

namespace kvern {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

TEST(Checked, SumsAndProductsAreExactOrNothing) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1),
            kMax - ((uint64_t{1} << 32) - 1));
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, kMax), 0u);
}

TEST(Checked, AligningNeverWraps) {
  EXPECT_EQ(checked_align_up(0, 64), 0u);
  EXPECT_EQ(checked_align_up(1, 64), 64u);
  EXPECT_EQ(checked_align_up(64, 64), 64u);
  EXPECT_EQ(checked_align_up(kMax - 62, 64), std::nullopt);
}

TEST(Checked, ExtentsLieInsideOrNot) {
  EXPECT_TRUE(extent_inside(0, 10, 10));
  EXPECT_TRUE(extent_inside(10, 0, 10));
  EXPECT_FALSE(extent_inside(10, 1, 10));
  EXPECT_FALSE(extent_inside(11, 0, 10));
  EXPECT_FALSE(extent_inside(5, kMax, 10));
  EXPECT_FALSE(extent_inside(kMax, 2, 10));
}

TEST(Check, SaysWhereAndWhat) {
  try {
    KVERN_CHECK(1 + 1 == 3, "pages: {} of {}", 4, 5);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("pages: 4 of 5"), std::string::npos) << text;
    EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos) << text;
    EXPECT_NE(text.find("checked_test.cpp"), std::string::npos) << text;
    EXPECT_EQ(error.code(), Code::kInternal);
  }
  KVERN_CHECK(true);
}

}  // namespace
}  // namespace kvern
