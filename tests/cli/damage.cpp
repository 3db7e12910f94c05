#include "tests/cli/damage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program, its libraries and the stacks of its threads; an allocation that believes a damaged
// count asks for far more and fails here.
constexpr int64_t kAddressSpaceBytes = int64_t{1} << 30;
constexpr int64_t kPeakRssBytes = 96 << 20;

#if defined(__SANITIZE_ADDRESS__)
constexpr double kSlower = 10;
constexpr bool kMeasureMemory = false;
#else
constexpr double kSlower = 1;
constexpr bool kMeasureMemory = true;
#endif

Outcome run_in_bounds(const std::vector<std::string>& args) {
  Outcome outcome = run(
      Command{.args = args, .memory_limit_bytes = kAddressSpaceBytes, .timeout_s = 20 * kSlower});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_LT(outcome.seconds, 1.0 * kSlower);
  if (kMeasureMemory) {
    EXPECT_LT(outcome.peak_rss_bytes, kPeakRssBytes);
  }
  EXPECT_THAT(outcome.err, Not(HasSubstr("terminate called")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("Sanitizer")));
  return outcome;
}

}  // namespace

uint64_t Random::below(uint64_t limit) {
  state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
  return (state_ >> 33) % limit;
}

void expect_refused_in_bounds(const std::vector<std::string>& args, const std::string& word) {
  const Outcome outcome = run_in_bounds(args);
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(word));
  EXPECT_THAT(outcome.err, ::testing::MatchesRegex("kvern: (.|\n){20,}")) << "no message";
}

void expect_refused_or_fine(const std::vector<std::string>& args) {
  const Outcome outcome = run_in_bounds(args);
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 3)) << outcome.err;
}

}  // namespace kvern::cli_test
