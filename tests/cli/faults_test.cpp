// The world fails: a full disk, a reader that leaves, a person who presses Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cli/process.h"
#include "tests/cli/tiny_gguf.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string tiny_plan() {
  static const std::string path = [] {
    const std::string model = temp_path("faults.gguf");
    const std::string plan = temp_path("faults.plan");
    write_file(model, make_tiny_gguf().bytes());
    const Outcome built = run({"build", model, "-o", plan});
    EXPECT_EQ(built.exit_code, 0) << built.err;
    return plan;
  }();
  return path;
}

TEST(CliFaults, AReaderThatLeavesEndsTheRunQuietly) {
  const Outcome outcome =
      run({.args = {"run", tiny_plan(), "-p", "a", "-n", "3000", "--ignore-eos"},
           .close_after_output_bytes = 0,
           .timeout_s = 60});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 1, 128 + SIGPIPE)) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("terminate called")));
}

TEST(CliFaults, AFullStandardOutputIsAFailure) {
  const Outcome outcome =
      run({.args = {"run", tiny_plan(), "-p", "a", "-n", "8", "--ignore-eos", "--json"},
           .stdout_path = "/dev/full"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
}

TEST(CliFaults, AFullDiskLeavesNoHalfPlan) {
  if (geteuid() != 0) GTEST_SKIP() << "only root mounts a small disk";
  const std::string disk = temp_path("small_disk");
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this machine lets nobody mount";
  }
  const Outcome outcome =
      run({"build", temp_path("faults.gguf"), "-o", disk + "/x.plan", "--weights", "f32"});
  const bool left_empty = std::filesystem::is_empty(disk);
  ::umount(disk.c_str());
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(disk));
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
  EXPECT_TRUE(left_empty) << "a temporary file was left on the full disk";
}

TEST(CliFaults, AFolderThatIsNotThereIsNamed) {
  tiny_plan();
  const std::string path = temp_path("no/such/folder/x.plan");
  const Outcome outcome = run({"build", temp_path("faults.gguf"), "-o", path});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(path));
}

class E2eCliFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (small_model_path().empty()) GTEST_SKIP() << "the small model is not here";
  }
};

TEST_F(E2eCliFaults, CtrlCKeepsTheTextSoFar) {
  const Outcome warm = run({"run", small_model_path(), "-p", "Once", "-n", "1"});
  ASSERT_EQ(warm.exit_code, 0) << warm.err;
  const Outcome outcome = run(
      {.args = {"run", small_model_path(), "-p", "Once upon a time", "-n", "1500", "--ignore-eos"},
       .interrupt_after_output_bytes = 40,
       .timeout_s = 60});
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  EXPECT_GT(outcome.out.size(), 40u);
  EXPECT_LT(outcome.out.size(), 4000u);  // it stopped at once: 1,500 tokens are about 6,000 bytes
  EXPECT_THAT(outcome.err, Not(HasSubstr("terminate called")));
}

// Whatever lies under the plan's own name afterwards is whole: nothing, or a plan that verifies.
TEST_F(E2eCliFaults, CtrlCDuringABuildLeavesNoHalfPlan) {
  const std::string folder = temp_path("interrupted");
  for (double at_s : {0.02, 0.2, 0.6}) {
    std::filesystem::create_directory(folder);
    const Outcome outcome = run({.args = {"build", small_model_path(), "-o", folder + "/x.plan"},
                                 .interrupt_after_s = at_s});
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 130)) << outcome.err;
    if (std::filesystem::exists(folder + "/x.plan")) {
      EXPECT_EQ(run({"verify", folder + "/x.plan"}).exit_code, 0);
      std::filesystem::remove(folder + "/x.plan");
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a temporary file was left, at " << at_s;
    std::filesystem::remove_all(folder);
  }
}

TEST_F(E2eCliFaults, ASecondRunStartsWithinTwoSeconds) {
  run({"run", small_model_path(), "-p", "Once", "-n", "1"});
  const Outcome outcome = run({"run", small_model_path(), "--chat", "-p", "Hello", "-n", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_LT(outcome.seconds, 2.0);
}

TEST_F(E2eCliFaults, ChatAnswersInWords) {
  const Outcome outcome = run(
      {"run", small_model_path(), "--chat", "-p", "What is the capital of France?", "-n", "24"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Paris"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("<|im_end|>")));
}

}  // namespace
}  // namespace kvern::cli_test
