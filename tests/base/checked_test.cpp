#include "base/checked.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(Checked, GivesTheExactResultOrNothing) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - 0xffffffffu);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
}

TEST(Checked, AlignsUpwards) {
  EXPECT_EQ(checked_align_up(0, 64), 0u);
  EXPECT_EQ(checked_align_up(1, 64), 64u);
  EXPECT_EQ(checked_align_up(64, 64), 64u);
  EXPECT_EQ(checked_align_up(kMax - 62, 64), std::nullopt);
  EXPECT_EQ(align_up(17, 16), 32);
  EXPECT_EQ(align_up(9, 3), 9);
  EXPECT_EQ(ceil_div(9, 4), 3);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(0, 4), 0);
}

TEST(Checked, ExtentsLieInsideWithoutOverflow) {
  EXPECT_TRUE(extent_inside(0, 10, 10));
  EXPECT_TRUE(extent_inside(10, 0, 10));
  EXPECT_FALSE(extent_inside(1, 10, 10));
  EXPECT_FALSE(extent_inside(11, 0, 10));
  EXPECT_FALSE(extent_inside(kMax, 2, 10));
  EXPECT_FALSE(extent_inside(2, kMax, 10));
}

}  // namespace
}  // namespace kvern
