// Fifty damaged plans: any byte outside the weights, padding included, is refused at load; a byte
// of the weights by `verify` and `run --verify`.
#include <gtest/gtest.h>

#include "plan/reader.h"
#include "tests/cli/damage.h"
#include "tests/cli/process.h"
#include "tests/cli/tiny_gguf.h"

namespace kvern::cli_test {
namespace {

constexpr int kNumFlips = 40;

class CliDamagedPlan : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string model = temp_path("plan_source.gguf");
    const std::string plan = temp_path("whole.plan");
    write_file(model, make_tiny_gguf().bytes());
    const Outcome built = run({"build", model, "-o", plan});
    ASSERT_EQ(built.exit_code, 0) << built.err;
    whole_ = read_file(plan);
    const plan::PlanFile file(plan);
    weights_bytes_ = file.weights().size();
    weights_at_ = whole_.size() - weights_bytes_;  // the weights are the last section
    ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(file.weights().data()), 64),
              std::string_view(whole_).substr(weights_at_, 64));
  }
  void SetUp() override { ASSERT_GT(weights_bytes_, 0u); }

  static std::vector<std::string> run_args(const std::string& path) {
    return {"run", path, "-p", "hello", "-n", "1"};
  }
  static std::string flipped(size_t at, Random& random) {
    std::string bytes = whole_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
    return bytes;
  }

  static inline std::string whole_;
  static inline size_t weights_at_ = 0;
  static inline size_t weights_bytes_ = 0;
};

TEST_F(CliDamagedPlan, CutShort) {
  const std::string path = temp_path("short.plan");
  for (size_t keep : {size_t{1}, size_t{7}, size_t{16}, size_t{63}, size_t{200}, weights_at_ / 2,
                      weights_at_ - 1, weights_at_, whole_.size() - 64, whole_.size() - 1}) {
    SCOPED_TRACE(keep);
    write_file(path, whole_.substr(0, keep));
    expect_refused_in_bounds(run_args(path));
  }
}

TEST_F(CliDamagedPlan, LongerThanItSays) {
  const std::string path = temp_path("long.plan");
  write_file(path, whole_ + std::string(100, 'x'));
  expect_refused_in_bounds(run_args(path));
}

TEST_F(CliDamagedPlan, AnyByteOutsideTheWeights) {
  const std::string path = temp_path("flipped.plan");
  Random random(5);
  for (int i = 0; i < kNumFlips; ++i) {
    // Half of them in the header and the section table, where each byte decides most.
    const size_t at = random.below(i % 2 == 0 ? 512 : weights_at_);
    SCOPED_TRACE(at);
    write_file(path, flipped(at, random));
    expect_refused_in_bounds(run_args(path));
  }
}

// The bytes just before the weights are padding, if there is any: they count too.
TEST_F(CliDamagedPlan, ThePaddingBeforeTheWeights) {
  const std::string path = temp_path("padding.plan");
  Random random(6);
  for (size_t back = 1; back <= 8; ++back) {
    write_file(path, flipped(weights_at_ - back, random));
    SCOPED_TRACE(back);
    expect_refused_in_bounds({"inspect", path});
  }
}

TEST_F(CliDamagedPlan, AByteOfTheWeightsIsFoundByVerify) {
  const std::string path = temp_path("weights.plan");
  Random random(7);
  for (int i = 0; i < 4; ++i) {
    write_file(path, flipped(weights_at_ + random.below(weights_bytes_), random));
    expect_refused_in_bounds({"verify", path});
    expect_refused_in_bounds({"run", path, "--verify", "-p", "hello", "-n", "1"});
  }
}

TEST_F(CliDamagedPlan, AnotherFormatVersionIsNamed) {
  // The version follows the magic of 8 bytes; the sums are wrong as well, so that the version must
  // be what is looked at first.
  std::string bytes = whole_;
  bytes[8] = 99;
  const std::string path = temp_path("version.plan");
  write_file(path, bytes);
  expect_refused_in_bounds(run_args(path), "version");
}

}  // namespace
}  // namespace kvern::cli_test
