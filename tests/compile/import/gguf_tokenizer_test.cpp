// The tokenizer.* metadata of GGUF files.
#include "compile/import/gguf/tokenizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <span>
#include <string>

#include "base/file.h"
#include "compile/import/hf/tokenizer_model.h"
#include "compile/import/hf/tokenizer_tree.h"
#include "kvern/error.h"
#include "tests/compile/import/gguf_builder.h"
#include "text/known_patterns.h"
#include "text/tokenizer.h"

namespace kvern::import::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

text::TextModel read_built(const GgufBuilder& builder) {
  const std::string bytes = builder.bytes();
  std::vector<std::string> warnings;
  return read_tokenizer(read(std::as_bytes(std::span(bytes)), "t.gguf"), warnings);
}

std::string outcome(const GgufBuilder& builder) {
  try {
    read_built(builder);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

void floats(GgufBuilder& builder, const std::string& key, const std::vector<double>& values) {
  std::string all = GgufBuilder::raw<uint32_t>(6) + GgufBuilder::raw<uint64_t>(values.size());
  for (const double value : values) all += GgufBuilder::raw(static_cast<float>(value));
  builder.set(key, ValueType::kArray, all);
}

void types(GgufBuilder& builder, const std::vector<text::TokenType>& values) {
  std::string all = GgufBuilder::raw<uint32_t>(5) + GgufBuilder::raw<uint64_t>(values.size());
  for (const text::TokenType value : values) {
    all += GgufBuilder::raw(static_cast<int32_t>(value));
  }
  builder.set("tokenizer.ggml.token_type", ValueType::kArray, all);
}

text::TextModel sentencepiece_golden(const std::string& kind) {
  const MappedFile file(std::string(KVERN_TEST_DATA) + "/golden/tok_" + kind + ".model");
  return hf::read_tokenizer_model(file.bytes(), file.path(), {});
}

GgufBuilder of_model(const text::TextModel& model, const std::string& kind) {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", kind);
  builder.strings("tokenizer.ggml.tokens", model.tokens);
  floats(builder, "tokenizer.ggml.scores", model.scores);
  types(builder, model.token_types);
  builder.count("tokenizer.ggml.bos_token_id", 1);
  builder.count("tokenizer.ggml.eos_token_id", 2);
  builder.count("tokenizer.ggml.unknown_token_id", 0);
  return builder;
}

TEST(GgufTokenizer, SentencePieceGivesTheIdsOfItsOwnFile) {
  const text::TextModel wanted = sentencepiece_golden("sp_bpe");
  const text::TextModel model = read_built(of_model(wanted, "llama"));
  EXPECT_TRUE(model.add_bos);  // what the format takes for granted
  const text::Tokenizer tokenizer(model);
  const text::Tokenizer other(wanted);
  std::ifstream file(std::string(KVERN_TEST_DATA) + "/golden/tok_lines.jsonl");
  int num_lines = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string text = hf::parse_tree(line, "line").text;
    // User-defined tokens cut a text in this format, so that the next piece gets its own space.
    if (text.find("WORD") != std::string::npos || text.find("@@") != std::string::npos) continue;
    const text::EncodeOptions options = {.add_special = false, .parse_special = false};
    ASSERT_EQ(tokenizer.encode(text, options), other.encode(text, options)) << text;
    ++num_lines;
  }
  EXPECT_GT(num_lines, 3000);
}

TEST(GgufTokenizer, SpacePrefixOnRequest) {
  GgufBuilder builder = of_model(sentencepiece_golden("sp_bpe"), "llama");
  builder.set("tokenizer.ggml.add_space_prefix", ValueType::kBool, std::string(1, '\0'));
  const text::Tokenizer tokenizer(read_built(builder));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(" a")), " a");
  const text::Tokenizer prefixing(read_built(of_model(sentencepiece_golden("sp_bpe"), "llama")));
  EXPECT_EQ(tokenizer.encode(" a"), prefixing.encode("a"));
}

TEST(GgufTokenizer, Unigram) {
  const text::TextModel model = read_built(of_model(sentencepiece_golden("sp_unigram"), "t5"));
  EXPECT_EQ(model.kind, text::TokenizerKind::kUnigram);
  const text::Tokenizer tokenizer(model);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("  the  mill ")), "the mill");
}

GgufBuilder byte_level(const std::string& pre) {
  GgufBuilder builder;
  builder.string("tokenizer.ggml.model", "gpt2");
  builder.string("tokenizer.ggml.pre", pre);
  builder.strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|end|>", "abc"});
  builder.strings("tokenizer.ggml.merges", {"a b"});
  builder.count("tokenizer.ggml.bos_token_id", 3);
  return builder;
}

TEST(GgufTokenizer, PreTokenizersByName) {
  const text::TextModel llama = read_built(byte_level("llama-bpe"));
  EXPECT_THAT(llama.splits, ElementsAre(text::scan_step(text::Scanner::kLlama3)));
  EXPECT_TRUE(llama.add_bos);
  EXPECT_THAT(text::Tokenizer(llama).encode("abc"), ElementsAre(3, 4));  // whole words skip merges
  const text::TextModel qwen = read_built(byte_level("qwen2"));
  EXPECT_THAT(qwen.splits, ElementsAre(text::scan_step(text::Scanner::kQwen2)));
  EXPECT_EQ(qwen.normalizers.at(0).kind, text::StepKind::kNfc);
  EXPECT_FALSE(qwen.add_bos);
  EXPECT_THAT(text::Tokenizer(qwen).encode("abc"), ElementsAre(2));
  EXPECT_EQ(read_built(byte_level("deepseek-v3")).splits.size(), 3u);
  EXPECT_THAT(outcome(byte_level("default")), HasSubstr("'default' is not supported"));
}

TEST(GgufTokenizer, NamedTemplates) {
  GgufBuilder builder = byte_level("gpt-2");
  builder.string("tokenizer.chat_template", "d");
  builder.strings("tokenizer.chat_templates", {"tool_use"});
  EXPECT_THAT(outcome(builder), HasSubstr("'tokenizer.chat_template.tool_use' is missing"));
  builder.string("tokenizer.chat_template.tool_use", "t");
  EXPECT_THAT(
      read_built(builder).chat_templates,
      ElementsAre(text::NamedTemplate{"default", "d"}, text::NamedTemplate{"tool_use", "t"}));
}

TEST(GgufTokenizer, WhatIsMissingIsNamed) {
  GgufBuilder builder = of_model(sentencepiece_golden("sp_bpe"), "llama");
  builder.count("tokenizer.ggml.scores", 3);
  EXPECT_THAT(outcome(builder), HasSubstr("tokenizer.ggml.scores"));
  floats(builder, "tokenizer.ggml.scores", {1, 2});
  EXPECT_THAT(outcome(builder), HasSubstr("2 scores for 900 tokens"));
  floats(builder, "tokenizer.ggml.scores", std::vector<double>(900, NAN));
  EXPECT_THAT(outcome(builder), HasSubstr("a score of nan"));
}

}  // namespace
}  // namespace kvern::import::gguf
