#include "run/exec/tactic_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "run/exec/check_program.h"
#include "tests/run/exec/tiny_plan.h"

namespace kvern::exec {
namespace {

std::string warning_of(const plan::Plan& plan, bool plain_kernels) {
  ::testing::internal::CaptureStderr();
  prepare_program(plan, plain_kernels);
  return ::testing::internal::GetCapturedStderr();
}

TEST(TacticReport, IsSilentWhereEveryTacticIsTaken) {
  TinyPlan tiny;
  EXPECT_EQ(warning_of(tiny.plan, /*plain_kernels=*/false), "");
  tiny.plan.program.instructions[1].tactic = "cpu.embedding.plain";
  EXPECT_EQ(warning_of(tiny.plan, /*plain_kernels=*/false), "");
}

TEST(TacticReport, SaysWhatIsBetterAndWhyNot) {
  TinyPlan tiny;
  const plan::Instruction& linear = tiny.plan.program.instructions[3];
  const std::string better = better_than(linear, "cpu.linear.plain");
  const auto candidates = kernels::find_family("linear")->candidates(linear.desc);
  ASSERT_GT(candidates.size(), 1u);
  for (const kernels::Candidate& candidate : candidates) {
    const bool before = candidate.name != "cpu.linear.plain";
    EXPECT_EQ(better.find(candidate.name + " (") != std::string::npos, before) << better;
    if (!candidate.verdict.supported) {
      EXPECT_NE(better.find("(" + candidate.verdict.reason + ")"), std::string::npos) << better;
    }
  }
  EXPECT_EQ(better_than(linear, candidates[0].name), "");
}

TEST(TacticReport, SumsWhatDiffersIntoOneLine) {
  TinyPlan tiny;
  tiny.plan.program.instructions[1].tactic = "cpu.embedding.future";
  tiny.plan.program.instructions[8].tactic = "cpu.gather_rows.future";
  const std::string warning = warning_of(tiny.plan, /*plain_kernels=*/false);
  EXPECT_NE(warning.find("2 of 10 instructions"), std::string::npos) << warning;
  EXPECT_NE(warning.find("1 x cpu.embedding.future -> cpu.embedding.plain (this Kvern"),
            std::string::npos)
      << warning;
  EXPECT_NE(warning.find("kvern retune"), std::string::npos) << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
  // The oracle was asked for: nothing to warn of.
  EXPECT_EQ(warning_of(tiny.plan, /*plain_kernels=*/true), "");
}

// In a process of its own, whose processor is told to lack everything.
TEST(TacticReportDeathTest, NamesWhatTheProcessorLacks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto prepare_on_a_plain_processor = [] {
    setenv("KVERN_CPU_ISA", "plain", 1);
    TinyPlan tiny;
    tiny.plan.program.instructions[2].tactic = "cpu.rms_norm.avx512";
    prepare_program(tiny.plan, /*plain_kernels=*/false);
    std::exit(0);
  };
  EXPECT_EXIT(prepare_on_a_plain_processor(), ::testing::ExitedWithCode(0),
              "1 of 10 instructions.*cpu.rms_norm.avx512 -> cpu.rms_norm.plain .needs AVX-512");
}

}  // namespace
}  // namespace kvern::exec
