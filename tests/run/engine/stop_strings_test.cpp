#include "run/engine/stop_strings.h"

#include <gtest/gtest.h>

namespace kvern::engine {
namespace {

TEST(StopStrings, HoldsBackWhatMayBecomeAStop) {
  StopStrings stops({"END", "\n\n"});
  EXPECT_EQ(stops.push("say E"), "say ");
  EXPECT_EQ(stops.push("NOUGH\n"), "ENOUGH");
  EXPECT_EQ(stops.push("x E"), "\nx ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_FALSE(stops.hit());
  EXPECT_EQ(stops.push("D of it"), "");
  EXPECT_TRUE(stops.hit());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, TheEarliestOneWins) {
  StopStrings stops({"later", "b"});
  EXPECT_EQ(stops.push("ab later"), "a");
  EXPECT_TRUE(stops.hit());
}

TEST(StopStrings, OverlappingBeginningsAreNotLost) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("aa"), "");
  EXPECT_EQ(stops.push("a"), "a");
  EXPECT_EQ(stops.push("b!"), "");
  EXPECT_TRUE(stops.hit());
}

TEST(StopStrings, GivesBackWhatWasNoStop) {
  StopStrings stops({"abc"});
  EXPECT_EQ(stops.push("xab"), "x");
  EXPECT_EQ(stops.finish(), "ab");
}

TEST(StopStrings, WithoutStopsEverythingPasses) {
  StopStrings stops({});
  EXPECT_EQ(stops.push("anything"), "anything");
  EXPECT_EQ(stops.finish(), "");
}

}  // namespace
}  // namespace kvern::engine
