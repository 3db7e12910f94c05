// The real model's tokenizer and chat template against tests/golden/ (scripts/golden/ made them).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "compile/import/import.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace kvern::import {
namespace {

std::string model_path() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  if (given) return given;
  return std::string(KVERN_TEST_DATA) + "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class E2eSmolLm2Text : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) {
      GTEST_SKIP() << "no model at " << model_path() << "; scripts/quickstart fetches it";
    }
    if (!model_) model_ = new text::TextModel(load(model_path()).text);
  }
  static const text::TextModel& model() { return *model_; }

 private:
  static inline const text::TextModel* model_ = nullptr;  // loaded once for all tests
};

TEST_F(E2eSmolLm2Text, TokenIdsEqualTheGoldenLines) {
  const text::Tokenizer tokenizer(model());
  std::ifstream lines(std::string(KVERN_TEST_DATA) + "/golden/smollm2_tokens.jsonl");
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines) {
    const Json golden = parse_json(line, "golden", Code::kInvalidModel);
    const auto text = golden["text"].get<std::string>();
    const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = false});
    ASSERT_EQ(ids, golden["ids"].get<std::vector<int32_t>>()) << line;
    text::StreamDetokenizer stream(tokenizer, false);
    std::string joined;
    for (const int32_t id : ids) joined += stream.push(id);
    ASSERT_EQ(joined + stream.finish(), tokenizer.decode(ids, false)) << line;
  }
  EXPECT_EQ(num_lines, 1000);
}

TEST_F(E2eSmolLm2Text, ChatsRenderAsJinjaDoes) {
  const text::ChatTemplate chat_template(model().chat_template);
  const Json golden = parse_json(
      read_text_file(std::string(KVERN_TEST_DATA) + "/golden/smollm2_chat.json", 1 << 20), "golden",
      Code::kInvalidModel);
  EXPECT_GE(golden.size(), 10u);
  for (const Json& chat : golden) {
    text::TemplateInput input;
    for (const Json& message : chat["messages"]) {
      input.messages.push_back({message["role"], message["content"]});
    }
    input.add_generation_prompt = chat["add_generation_prompt"].get<bool>();
    EXPECT_EQ(chat_template.render(input), chat["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace kvern::import
