// kvern build of ONNX files: the table, the report, and the flags that only these have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class CliOnnxBuild : public ::testing::Test {
 protected:
  CliOnnxBuild() { fs::create_directories(folder_); }
  ~CliOnnxBuild() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  Outcome build(std::vector<std::string> more) {
    std::vector<std::string> args = {"build", model_, "-o", at("x.plan"), "--max-context-length",
                                     "64"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }

  fs::path folder_ = fs::temp_directory_path() / ("kvern_cli_onnx_" + std::to_string(::getpid()));
  std::string model_ = KVERN_TEST_DATA "/golden/onnx/bloom__opt_past";
};

TEST_F(CliOnnxBuild, ShowsWhatWasFoundAndInspectShowsItAgain) {
  const Outcome built = build({"--report", at("r.json")});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(built.err, HasSubstr("mask alibi"));
  EXPECT_THAT(built.err, HasSubstr("proof      passed: "));
  const Json report =
      parse_json(read_text_file(at("r.json"), 1 << 24), "report", Code::kInvalidArgument);
  EXPECT_EQ(report.at("onnx").at("proof").at("status"), "passed");
  EXPECT_EQ(report.at("onnx").at("inputs").at("ids"), "input_ids");
  const Outcome inspected = run({"inspect", at("x.plan")});
  EXPECT_THAT(inspected.out, HasSubstr("proof      passed: "));
  const Outcome json = run({"inspect", at("x.plan"), "--json"});
  EXPECT_THAT(json.out, HasSubstr("\"max_rel_diff\""));
  EXPECT_THAT(json.out, Not(HasSubstr("\"seconds\"")));
}

TEST_F(CliOnnxBuild, ARefusalIsReported) {
  const std::string model = KVERN_TEST_DATA "/golden/onnx/llama_gqa__int8_dynamic";
  const Outcome refused =
      run({"build", model, "-o", at("x.plan"), "--report", at("r.json"), "--json"});
  EXPECT_EQ(refused.exit_code, 3);
  const std::string text = read_text_file(at("r.json"), 1 << 24);
  EXPECT_EQ(refused.out, text);
  const Json report = parse_json(text, "report", Code::kInvalidArgument);
  EXPECT_EQ(report.at("status"), "refused");
  EXPECT_EQ(report.at("code"), "unsupported");
  EXPECT_THAT(refused.err, HasSubstr(report.at("reason").get<std::string>()));
  EXPECT_EQ(report.at("onnx").at("graph_inputs").at(0).at("name"), "input_ids");
  EXPECT_TRUE(report.at("onnx").at("opsets").contains("ai.onnx"));
  // A report of a refusal is ours to overwrite, beside the model too.
  EXPECT_EQ(build({"--report", at("r.json")}).exit_code, 0);
}

TEST_F(CliOnnxBuild, ATwinThatIsAbsentIsFoundBeforeTheBuild) {
  const Outcome refused = build({"--report", at("r.json"), "--twin", at("none.plan")});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_FALSE(fs::exists(at("x.plan")));
  EXPECT_FALSE(fs::exists(at("r.json")));
}

TEST_F(CliOnnxBuild, AnotherVocabularyIsNoTwin) {
  ASSERT_EQ(build({"--no-verify", "-q"}).exit_code, 0);
  const auto written = fs::last_write_time(at("x.plan"));
  const Outcome refused = build(
      {"--no-verify", "--twin", KVERN_TEST_DATA "/golden/tiny_llama", "--report", at("r.json")});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("has a vocabulary of 384"));
  EXPECT_EQ(fs::last_write_time(at("x.plan")), written);
}

TEST_F(CliOnnxBuild, InspectShowsWarningsAndWhatIsNotProved) {
  ASSERT_EQ(build({"-q"}).exit_code, 0);
  const std::string shown = run({"inspect", at("x.plan")}).out;
  EXPECT_THAT(shown, HasSubstr("warnings:\n"));
  EXPECT_THAT(shown, HasSubstr("no tokenizer"));
  EXPECT_THAT(shown, HasSubstr("both in plain f32 with the file's own weights"));
  EXPECT_THAT(shown, HasSubstr("not compared: K and V, which the plan keeps as bf16"));
  EXPECT_THAT(shown, HasSubstr("kv_attention bf16.k2.f32.split128"));
}

TEST_F(CliOnnxBuild, PlacesThatCannotBeWrittenAreUsageErrors) {
  const Outcome nowhere = run({"build", model_, "-o", at("no/such/x.plan")});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("there is no folder"));
  const Outcome onto = build({"--report", at("./x.plan")});
  EXPECT_EQ(onto.exit_code, 2);
  EXPECT_THAT(onto.err, HasSubstr("the report would overwrite the plan"));
  if (geteuid() == 0) return;  // root writes everywhere
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome locked = build({});
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(locked.exit_code, 2);
  EXPECT_THAT(locked.err, HasSubstr("no file can be made"));
}

TEST_F(CliOnnxBuild, WithoutALengthATableOfPositionsSaysIt) {
  const std::string alone = at("opt.onnx");  // no config.json beside it
  fs::copy_file(KVERN_TEST_DATA "/golden/onnx/opt__opt_past/model.onnx", alone);
  const Outcome built = run({"build", alone, "-o", at("opt.plan"), "-q"});
  EXPECT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(built.err, HasSubstr("tables end before 2048 tokens: the plan takes 128"));
  EXPECT_EQ(run({"build", alone, "-o", at("y.plan"), "--max-context-length", "200"}).exit_code, 3);
}

TEST_F(CliOnnxBuild, OtherVerbsSayWhatToDoWithIt) {
  ASSERT_EQ(build({"-q", "--no-verify"}).exit_code, 0);
  EXPECT_THAT(run({"bench", model_}).err, HasSubstr("kvern build"));
  EXPECT_THAT(run({"run-graph", at("x.plan"), "-o", at("y.npz")}).err, HasSubstr("is a plan"));
  EXPECT_THAT(run({"chat", at("x.plan")}).err, HasSubstr("--prompt-ids 1,2,3"));
  const Outcome short_context = run({"bench", at("x.plan"), "-r", "1", "-o", "json"});
  EXPECT_EQ(short_context.exit_code, 0) << short_context.err;
  EXPECT_THAT(short_context.out, HasSubstr("\"pp63\""));
}

TEST_F(CliOnnxBuild, QuietPrintsNoTable) {
  const Outcome built = build({"--quiet"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(built.err, Not(HasSubstr("proof")));
}

TEST_F(CliOnnxBuild, NoVerifyIsWrittenDown) {
  const Outcome built = build({"--no-verify"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  EXPECT_THAT(run({"inspect", at("x.plan")}).out, HasSubstr("proof      skipped"));
}

TEST_F(CliOnnxBuild, DeclaredStatesMustBeThoseOfTheDataFlow) {
  const Outcome right = build({"--state", "past_key_values.0.key=present.0.key"});
  EXPECT_EQ(right.exit_code, 0) << right.err;
  const Outcome wrong = build({"--state", "past_key_values.0.key=present.1.key"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("is returned by 'present.0.key'"));
  const Outcome broken = build({"--state", "past_key_values.0.key"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("NAME=VALUE is wanted"));
}

TEST_F(CliOnnxBuild, ReportsGoWhereTheyCan) {
  const Outcome nowhere = build({"--report", at("no/such/r.json")});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_FALSE(fs::exists(at("x.plan")));
  EXPECT_EQ(build({"--report", model_}).exit_code, 2);
}

TEST_F(CliOnnxBuild, ReportsOverwriteOnlyOlderReports) {
  const fs::path copy = folder_ / "model";
  fs::copy(KVERN_TEST_DATA "/golden/onnx/gemma2__genai_fp32", copy);
  const std::string plan = at("x.plan");
  fs::create_symlink("/dev/null", folder_ / "null");
  for (const std::string& model : {copy.string(), (copy / "model.onnx").string()}) {
    for (const std::string& report :
         {(copy / "model.onnx").string(), (copy / "config.json").string(),
          (copy / "model.onnx.data").string(), plan, folder_.string() + "/./x.plan",
          (folder_ / "null").string()}) {
      const Outcome built = run({"build", model, "-o", plan, "--report", report, "--no-verify"});
      EXPECT_EQ(built.exit_code, 2) << report << built.err;
      EXPECT_FALSE(fs::exists(plan));
    }
    const Outcome onto = run({"build", model, "-o", (copy / "config.json").string()});
    EXPECT_EQ(onto.exit_code, 2) << onto.err;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run({"build", copy.string(), "-o", plan, "--report", (copy / "r.json").string(),
                   "--no-verify", "-q"})
                  .exit_code,
              0);
  }
}

TEST_F(CliOnnxBuild, InputsAreDeclaredWhereNothingElseExplainsThem) {
  const Outcome unknown = build({"--input", "nothing=3"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no such input"));
  const Outcome needless = build({"--input", "attention_mask=3"});
  EXPECT_EQ(needless.exit_code, 2);
  EXPECT_THAT(needless.err, HasSubstr("is known"));
  const Outcome huge = build({"--input", "attention_mask=99999999999999999999"});
  EXPECT_EQ(huge.exit_code, 2);
  EXPECT_THAT(huge.err, HasSubstr("32 bits"));
}

TEST_F(CliOnnxBuild, ExternalDataIsNotOverwritten) {
  const fs::path copy = folder_ / "model";
  fs::copy(KVERN_TEST_DATA "/golden/onnx/gemma2__genai_fp32", copy);
  const std::string data = (copy / "model.onnx.data").string();
  const auto size = fs::file_size(data);
  const Outcome onto = run({"build", (copy / "model.onnx").string(), "-o", data});
  EXPECT_EQ(onto.exit_code, 2) << onto.err;
  EXPECT_THAT(onto.err, HasSubstr("would overwrite"));
  EXPECT_EQ(fs::file_size(data), size);
}

}  // namespace
}  // namespace kvern::cli_test
