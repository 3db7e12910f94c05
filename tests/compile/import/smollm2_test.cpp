// The real model: SmolLM2-135M-Instruct.Q4_1.gguf, from $KVERN_SMOLLM2 or the model cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "compile/import/import.h"

namespace kvern::import {
namespace {

std::string model_path() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  if (given != nullptr && *given != '\0') return given;
  return KVERN_TEST_DATA "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class E2eSmolLm2Import : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "no " << model_path();
  }
};

TEST_F(E2eSmolLm2Import, ConfigurationAndTensors) {
  uint64_t last_done = 0;
  uint64_t last_total = 1;
  LoadOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last_done);
    last_done = done;
    last_total = total;
  };
  const ImportedModel model = load(model_path(), options);
  EXPECT_EQ(last_done, last_total);
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(model.vocabulary_size, 49152);
  EXPECT_EQ(model.num_layers, 30);
  EXPECT_EQ(model.hidden_size, 576);
  EXPECT_EQ(model.max_context_length, 8192);
  EXPECT_EQ(model.num_parameters, 134515008);
  EXPECT_EQ(model.source_hash.size(), 16u);
  std::map<std::string, int> types;
  for (const TensorNote& tensor : model.tensors) ++types[tensor.source_type];
  EXPECT_EQ(types, (std::map<std::string, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  ASSERT_EQ(model.slots.size(), 30u);
  EXPECT_EQ(model.slots[29].kv_heads, 3);
  EXPECT_EQ(model.slots[29].dim_k, 64);
  EXPECT_EQ(model.slots[29].layers, std::vector<int64_t>{29});
  ASSERT_EQ(model.files.size(), 1u);
}

TEST_F(E2eSmolLm2Import, GraphIsWellFormedAndPrintsAndParses) {
  const ImportedModel model = load(model_path());
  ir::verify(model.graph);
  EXPECT_EQ(model.graph.weights.size(), 272u);
  std::map<std::string, int> formats;
  for (const ir::Weight& weight : model.graph.weights) ++formats[to_string(weight.storage)];
  EXPECT_EQ(formats,
            (std::map<std::string, int>{{"f32", 61}, {"i4 g32 f16 min", 210}, {"i8 g32 f16", 1}}));
  const std::string text = ir::print(model.graph);
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

TEST_F(E2eSmolLm2Import, Tokenizer) {
  const ImportedModel model = load(model_path());
  EXPECT_EQ(model.text.kind, text::TokenizerKind::kByteLevelBpe);
  EXPECT_EQ(model.text.splits, std::vector{text::scan_step(text::Scanner::kSmolLm)});
  EXPECT_EQ(model.text.tokens.size(), 49152u);
  EXPECT_EQ(model.text.merges.size(), 48900u);
  EXPECT_EQ(model.text.bos_id, 1);
  EXPECT_EQ(model.text.eos_id, 2);
  EXPECT_FALSE(model.text.add_bos);
  EXPECT_EQ(model.stop_ids, std::vector<int32_t>{2});
  EXPECT_EQ(model.text.tokens[2], "<|im_end|>");
  EXPECT_THAT(model.text.chat_template, testing::HasSubstr("<|im_start|>"));
  EXPECT_THAT(model.warnings, testing::IsEmpty());
}

}  // namespace
}  // namespace kvern::import
