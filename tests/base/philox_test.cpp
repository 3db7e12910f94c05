#include "base/philox.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that come with the authors' Random123.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AllBitsOfKeyAndCounterMatter) {
  const uint64_t base = philox64(5, 7);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(philox64(5 ^ (uint64_t{1} << bit), 7), base);
    EXPECT_NE(philox64(5, 7 ^ (uint64_t{1} << bit)), base);
  }
}

}  // namespace
}  // namespace kvern
