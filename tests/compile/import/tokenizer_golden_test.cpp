// Ids and texts equal to those of the `tokenizers` package and of SentencePiece, line by line
// (scripts/golden/tokenizers_golden.py made the tokenizers and the sums).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"
#include "compile/import/gguf/tokenizer.h"
#include "compile/import/hf/tokenizer_json.h"
#include "compile/import/hf/tokenizer_model.h"
#include "compile/import/hf/tokenizer_tree.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace kvern::import::hf {
namespace {

std::string golden_path(const std::string& name) {
  return std::string(KVERN_TEST_DATA) + "/golden/tok_" + name;
}

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> texts;
    std::ifstream file(golden_path("lines.jsonl"));
    for (std::string line; std::getline(file, line);) {
      texts.push_back(parse_tree(line, "tok_lines.jsonl").text);
    }
    return texts;
  }();
  return all;
}

class Fnv {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 0x01000193u;
  }
  uint32_t value() const { return value_; }

 private:
  uint32_t value_ = 0x811C9DC5u;
};

text::TextModel read_golden(const std::string& kind) {
  if (kind.starts_with("sp_")) {
    const MappedFile file(golden_path(kind + ".model"));
    return read_tokenizer_model(file.bytes(), file.path(), {});
  }
  const std::string path = golden_path(kind + ".json");
  return read_tokenizer_json(read_text_file(path, 1 << 20), path);
}

void expect_sums(const text::Tokenizer& tokenizer, const std::string& kind,
                 const text::EncodeOptions& options) {
  std::ifstream sums(golden_path(kind + ".sums"));
  ASSERT_GE(lines().size(), 3000u);
  int num_wrong = 0;
  for (size_t i = 0; i < lines().size(); ++i) {
    std::string wanted;
    ASSERT_TRUE(std::getline(sums, wanted)) << i;
    if (wanted == "-") continue;  // the script says why
    const std::vector<int32_t> ids = tokenizer.encode(lines()[i], options);
    const std::string text = tokenizer.decode(ids);
    Fnv sum;
    sum.add(ids.data(), ids.size() * sizeof(int32_t));
    sum.add(text.data(), text.size());
    if (sum.value() == std::stoul(wanted, nullptr, 16)) continue;
    if (++num_wrong > 5) continue;
    ADD_FAILURE() << "line " << i << ", '" << lines()[i] << "' gave " << testing::PrintToString(ids)
                  << ", '" << text << "'. For what is wanted: python "
                  << "scripts/golden/tokenizers_golden.py " << kind << " " << i;
  }
  EXPECT_EQ(num_wrong, 0);
}

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, IdsAndTextsOfEveryLine) {
  const std::string kind = GetParam();
  // SentencePiece never takes control tokens from text.
  const bool parse_special = !kind.starts_with("sp_");
  expect_sums(text::Tokenizer(read_golden(kind)), kind,
              {.add_special = true, .parse_special = parse_special});
}

TEST_P(TokenizerGolden, StreamsJoinToTheWholeText) {
  const text::Tokenizer tokenizer(read_golden(GetParam()));
  for (size_t i = 0; i < lines().size(); i += 7) {
    const std::vector<int32_t> ids = tokenizer.encode(lines()[i]);
    text::StreamDetokenizer stream(tokenizer);
    text::StreamDetokenizer continuing = text::StreamDetokenizer::continuing(tokenizer);
    std::string joined;
    std::string continued;
    std::string bytes;
    for (const int32_t id : ids) {
      joined += stream.push(id);
      continued += continuing.push(id);
      if (!tokenizer.is_special(id)) bytes += tokenizer.token_bytes(id);
    }
    ASSERT_EQ(joined + stream.finish(), tokenizer.decode(ids)) << i;
    ASSERT_EQ(continued + continuing.finish(), bytes) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, TokenizerGolden,
                         testing::Values("gpt2", "gpt2_prefix", "smollm", "llama3", "qwen2",
                                         "qwen35", "gpt4o", "tekken", "regex", "llama2", "mistral",
                                         "gemma", "unigram", "charsmap", "words", "bert", "sp_bpe",
                                         "sp_unigram", "sp_bpe_unk"),
                         [](const auto& info) { return std::string(info.param); });

// 262,144 tokens of a real model; SentencePiece made the sums from the file's own vocabulary.
TEST(E2eGemma3Tokenizer, IdsAndTextsOfEveryLine) {
  const char* given = std::getenv("KVERN_GEMMA3");
  const std::string path =
      given != nullptr ? given : KVERN_TEST_DATA "/../.cache/models/gemma-3-270m-q4_k_m.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no model at '" << path << "'; scripts/fetch_model fetches it";
  }
  const MappedFile file(path);
  std::vector<std::string> warnings;
  const text::TextModel model = gguf::read_tokenizer(gguf::read(file.bytes(), path), warnings);
  EXPECT_TRUE(model.add_bos);
  expect_sums(text::Tokenizer(model), "gemma3", {.add_special = false, .parse_special = false});
}

}  // namespace
}  // namespace kvern::import::hf
