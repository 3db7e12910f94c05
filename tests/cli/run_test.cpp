// The verbs on a tiny model: what they print, in which shape, and that it is the same every time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "tests/cli/process.h"
#include "tests/cli/tiny_gguf.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;

Json json_of(const Outcome& outcome) {
  return parse_json(outcome.out, "standard output", Code::kInvalidArgument);
}

class CliTiny : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_file(model(), make_tiny_gguf().bytes());
    const Outcome built = run({"build", model(), "-o", plan()});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  static std::string model() { return temp_path("tiny.gguf"); }
  static std::string plan() { return temp_path("tiny.plan"); }
};

TEST_F(CliTiny, JsonOfRunHasItsShape) {
  const Outcome outcome =
      run({"run", plan(), "--prompt-ids", "3,40,41,42", "-n", "6", "--ignore-eos", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = json_of(outcome);
  EXPECT_TRUE(json.at("text").is_string());
  EXPECT_EQ(json.at("ids").size(), 6u);
  EXPECT_EQ(json.at("prompt_ids"), Json::parse("[3,40,41,42]"));
  EXPECT_EQ(json.at("finish_reason"), "length");
  ASSERT_TRUE(json.at("timings").is_object());
  EXPECT_FALSE(json.at("timings").empty());
}

TEST_F(CliTiny, AnswersAreTheSameFromThePlanAndFromTheModel) {
  const auto ids = [](const std::string& path) {
    const Outcome outcome =
        run({"run", path, "-p", "hello there", "-n", "12", "--ignore-eos", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json_of(outcome).at("ids") : Json();
  };
  const Json from_plan = ids(plan());
  EXPECT_EQ(from_plan.size(), 12u);
  EXPECT_EQ(ids(plan()), from_plan);
  EXPECT_EQ(ids(model()), from_plan);  // built into the cache
  EXPECT_EQ(ids(model()), from_plan);  // and found there
}

TEST_F(CliTiny, TextComesFromFlagFileAndStandardInput) {
  const std::string file = temp_path("prompt.txt");
  write_file(file, "a mill");
  const Outcome flag = run({"run", plan(), "-p", "a mill", "-n", "5", "--ignore-eos", "--ids"});
  const Outcome from_file = run({"run", plan(), "-f", file, "-n", "5", "--ignore-eos", "--ids"});
  const Outcome piped =
      run({.args = {"run", plan(), "-", "-n", "5", "--ignore-eos", "--ids"}, .input = "a mill"});
  ASSERT_EQ(flag.exit_code, 0) << flag.err;
  EXPECT_NE(flag.out, "");
  EXPECT_EQ(from_file.out, flag.out) << from_file.err;
  EXPECT_EQ(piped.out, flag.out) << piped.err;
}

TEST_F(CliTiny, WithoutTheCacheTheIdsAreTheSame) {
  std::vector<std::string> args{"run", plan(), "-p", "hello", "-n", "8", "--ignore-eos", "--ids"};
  const Outcome cached = run(args);
  args.push_back("--no-kv-cache");
  const Outcome uncached = run(args);
  ASSERT_EQ(uncached.exit_code, 0) << uncached.err;
  EXPECT_EQ(uncached.out, cached.out);
}

TEST_F(CliTiny, RebuildingGivesTheSameBytes) {
  const std::string again = temp_path("again.plan");
  ASSERT_EQ(run({"build", model(), "-o", again}).exit_code, 0);
  EXPECT_EQ(read_file(again), read_file(plan()));
}

// A plan names what the best machine would take, whichever machine builds it.
TEST_F(CliTiny, BuildingOnALesserProcessorGivesTheSameBytes) {
  const std::string lesser = temp_path("lesser.plan");
  setenv("KVERN_CPU_ISA", "plain", 1);
  const Outcome built = run({"build", model(), "-o", lesser});
  unsetenv("KVERN_CPU_ISA");
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_EQ(read_file(lesser), read_file(plan()));
}

TEST_F(CliTiny, EveryWeightAndKvFormatRuns) {
  for (const char* weights : {"keep", "f32", "f16", "bf16", "int8", "int4"}) {
    for (const char* kv : {"f32", "f16", "bf16", "int8"}) {
      const std::string path = temp_path(std::string("w_") + weights + "_" + kv + ".plan");
      const Outcome built = run({"build", model(), "-o", path, "--weights", weights, "--kv", kv});
      ASSERT_EQ(built.exit_code, 0) << weights << " " << kv << ": " << built.err;
      const Outcome outcome = run({"run", path, "-p", "hello", "-n", "4", "--ignore-eos"});
      EXPECT_EQ(outcome.exit_code, 0) << weights << " " << kv << ": " << outcome.err;
      std::filesystem::remove(path);
    }
  }
}

TEST_F(CliTiny, InspectShowsThePlan) {
  const Outcome words = run({"inspect", plan()});
  EXPECT_EQ(words.exit_code, 0) << words.err;
  EXPECT_THAT(words.out, HasSubstr("llama"));
  const Outcome json = run({"inspect", plan(), "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.err;
  EXPECT_TRUE(json_of(json).is_object());
  const Outcome graph = run({"inspect", plan(), "--graph"});
  ASSERT_EQ(graph.exit_code, 0) << graph.err;
  EXPECT_THAT(graph.out, HasSubstr("kv_attention"));
}

TEST_F(CliTiny, VerifyAcceptsAGoodPlan) {
  EXPECT_EQ(run({"verify", plan()}).exit_code, 0);
  EXPECT_EQ(run({"run", plan(), "--verify", "-p", "a", "-n", "2"}).exit_code, 0);
}

TEST_F(CliTiny, BenchPrintsSpeeds) {
  const Outcome outcome =
      run({"bench", plan(), "-p", "16", "-n", "64", "-b", "1,2", "-r", "1", "-o", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(json_of(outcome).empty());
}

// Requests that the plan cannot serve, each with what is wrong in words.
TEST_F(CliTiny, ImpossibleRequestsAreRefused) {
  for (const char* ids : {"99999", "-1", "3,,4", "3,x", ""}) {
    const Outcome outcome = run({"run", plan(), "--prompt-ids", ids, "-n", "2"});
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(2, 3)) << ids << ": " << outcome.err;
    EXPECT_NE(outcome.err, "") << ids;
  }
  std::string long_prompt;
  for (int i = 0; i < 6000; ++i) long_prompt += "x ";
  const Outcome outcome = run({.args = {"run", plan(), "-", "-n", "2"}, .input = long_prompt});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("4096"));
}

}  // namespace
}  // namespace kvern::cli_test
