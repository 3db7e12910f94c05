// The committed exports (tests/golden/onnx): each builds and answers as ONNX Runtime did, alone, in
// a ragged batch of five, and from a warm prefix cache.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "tests/onnx_zoo/zoo_check.h"

namespace kvern::zoo {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = KVERN_TEST_DATA "/golden/onnx";

// Exports that must be refused, with what the message says.
const std::map<std::string, std::string> kRefused = {
    {"llama_gqa__int8_dynamic", "DynamicQuantizeLinear"},
};
// Not right yet, with what is said. One that is right must leave this list.
const std::map<std::string, std::string> kPending = {};

std::vector<std::string> committed() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string style_of(const std::string& name) {
  return name.substr(name.find("__") + 2);
}

class OnnxZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(OnnxZoo, AnswersAsOnnxRuntime) {
  const std::string name = GetParam();
  const Outcome outcome = check_export(kFolder + "/" + name, options_of_style(style_of(name)));
  const auto refused = kRefused.find(name);
  if (refused != kRefused.end()) {
    EXPECT_STREQ(state_name(outcome.state), "refused") << outcome.message;
    EXPECT_THAT(outcome.message, ::testing::HasSubstr(refused->second));
    return;
  }
  if (kPending.contains(name)) {
    ASSERT_NE(outcome.state, State::kRight) << "it is right now: take it off kPending";
    EXPECT_THAT(outcome.message, ::testing::HasSubstr(kPending.at(name)));
    GTEST_SKIP() << "pending: " << outcome.message;
  }
  EXPECT_STREQ(state_name(outcome.state), "right") << outcome.message;
  EXPECT_GT(outcome.prefix_hit_tokens, 0);
  EXPECT_LE(outcome.worst_logit, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Committed, OnnxZoo, ::testing::ValuesIn(committed()),
                         [](const auto& info) { return info.param; });

// Weights in int8 as they are, activations unrounded: near ONNX Runtime, not equal.
TEST(OnnxZooCheck, DynamicQuantPerTokenComesNear) {
  CheckOptions options = options_of_style("int8_dynamic");
  options.per_token_dynamic_quant = true;
  options.logit_tolerance = 0.5;
  options.margin = 1e9;  // ids are not asked for
  const Outcome outcome = check_export(kFolder + "/llama_gqa__int8_dynamic", options);
  EXPECT_STREQ(state_name(outcome.state), "right") << outcome.message;
  EXPECT_GT(outcome.worst_logit, 1e-4);
}

TEST(OnnxZooCheck, SeesAnotherModelsAnswers) {
  // Qwen 3's oracle beside Llama's file: the check must be able to fail.
  const fs::path folder = fs::temp_directory_path() / "kvern_zoo_check";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(kFolder + "/llama_gqa__opt_past/model.onnx", folder / "model.onnx");
  fs::copy(kFolder + "/qwen3__dyn23/oracle.json", folder / "oracle.json");
  const Outcome outcome = check_export(folder.string());
  EXPECT_STREQ(state_name(outcome.state), "differs");
  EXPECT_THAT(outcome.message, ::testing::HasSubstr("a logit is"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace kvern::zoo
