// Folders as models come in them, and what is wrong with some.
#include "compile/import/hf/tokenizer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "compile/import/hf/tokenizer_json.h"
#include "compile/import/hf/tokenizer_model.h"
#include "kvern/error.h"
#include "text/tokenizer.h"

namespace kvern::import::hf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string golden(const std::string& name) {
  return read_text_file(std::string(KVERN_TEST_DATA) + "/golden/tok_" + name, 1 << 20);
}

class HfTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("kvern_hf_tokenizer_") + std::to_string(getpid()) + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  text::TextModel read() const { return read_tokenizer(folder_.string()); }
  std::string outcome() const {
    try {
      read();
      return "no error";
    } catch (const Error& error) {
      return std::string(code_name(error.code())) + ": " + error.what();
    }
  }

  std::filesystem::path folder_;
};

TEST_F(HfTokenizer, NoneInTheFolder) {
  EXPECT_TRUE(read().empty());
}

TEST_F(HfTokenizer, SpecialTokensAsStringsAndObjects) {
  write("tokenizer.json", golden("llama3.json"));
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": {"content": "<|im_end|>", "lstrip": false},
            "pad_token": null, "add_bos_token": false})");
  write("special_tokens_map.json", R"({"pad_token": "</s>", "eos_token": "</s>"})");
  const text::TextModel model = read();
  EXPECT_EQ(model.bos_id, 0);
  EXPECT_EQ(model.eos_id, 3);
  EXPECT_EQ(model.pad_id, 1);
  EXPECT_EQ(model.stop_ids, std::vector<int32_t>{3});
  EXPECT_TRUE(model.add_bos);  // tokenizer.json's template says so, which is what counts
  EXPECT_TRUE(model.prefix_ids.empty());
  EXPECT_EQ(text::Tokenizer(model).encode("")[0], 0);
}

TEST_F(HfTokenizer, TemplateOfOtherTokensThanBos) {
  write("tokenizer.json", golden("llama3.json"));
  write("tokenizer_config.json", R"({"bos_token": "<|im_start|>"})");
  const text::TextModel model = read();
  EXPECT_FALSE(model.add_bos);
  EXPECT_THAT(model.prefix_ids, ElementsAre(0));
  EXPECT_THAT(text::Tokenizer(model).encode(""), ElementsAre(0));
}

TEST_F(HfTokenizer, TokensAddedBesideTheTokenizer) {
  write("tokenizer.json", golden("gpt2.json"));
  const int32_t size = read().vocabulary_size();
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {")" + std::to_string(size + 1) +
            R"(": {"content": "<|tool|>", "special": true, "lstrip": false, "rstrip": false,
                   "single_word": false, "normalized": false},
            "0": {"content": "<s>", "special": false, "lstrip": true}}})");
  const text::TextModel model = read();
  EXPECT_EQ(model.vocabulary_size(), size + 2);
  EXPECT_EQ(model.token_types[size], text::TokenType::kUnused);
  EXPECT_THAT(text::Tokenizer(model).encode("<|tool|>"), ElementsAre(size + 1));
  EXPECT_EQ(model.token_types[0], text::TokenType::kControl);  // tokenizer.json's word counts
}

TEST_F(HfTokenizer, NamedTokensAreSpecialAndListedOnesAreAddedOnce) {
  write("tokenizer.json", golden("gpt2.json"));
  const text::TextModel plain = read();
  const auto the =
      static_cast<size_t>(std::ranges::find(plain.tokens, "the") - plain.tokens.begin());
  ASSERT_LT(the, plain.tokens.size());
  EXPECT_EQ(plain.token_types[the], text::TokenType::kNormal);
  write("tokenizer_config.json", R"({"eos_token": "the"})");
  write("added_tokens.json", R"({"Ġ": 5, "<new>": )" + std::to_string(plain.tokens.size()) + "}");
  const text::TextModel model = read();
  EXPECT_EQ(model.token_types[the], text::TokenType::kControl);
  EXPECT_EQ(model.tokens.back(), "<new>");
  EXPECT_EQ(std::ranges::count(model.token_types, text::TokenType::kControl),
            std::ranges::count(plain.token_types, text::TokenType::kControl) + 2);
}

TEST_F(HfTokenizer, ChatTemplates) {
  write("tokenizer.json", golden("gpt2.json"));
  EXPECT_EQ(read().chat_template, "");
  write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(read().chat_template, "one");
  EXPECT_TRUE(read().chat_templates.empty());
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "t"},
                              {"name": "default", "template": "d"}]})");
  EXPECT_EQ(read().chat_template, "d");
  EXPECT_THAT(read().chat_templates, ElementsAre(text::NamedTemplate{"default", "d"},
                                                 text::NamedTemplate{"tool_use", "t"}));
  write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(read().chat_template, "from json");
  write("chat_template.jinja", "from jinja\n");
  EXPECT_EQ(read().chat_template, "from jinja\n");
  write("additional_chat_templates/rag.jinja", "r");
  EXPECT_EQ(read().chat_templates.back(), (text::NamedTemplate{"rag", "r"}));
}

TEST_F(HfTokenizer, SentencePieceAlone) {
  write("tokenizer.model", golden("sp_bpe.model"));
  const text::TextModel model = read();
  EXPECT_EQ(model.unk_id, 0);
  EXPECT_EQ(model.bos_id, 1);
  EXPECT_EQ(model.eos_id, 2);
  EXPECT_TRUE(model.add_bos);
  const text::Tokenizer tokenizer(model);
  // Behind a special token text begins anew, unless the folder says "legacy": false.
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a</s>a"), false), "<s> a</s> a");
  write("tokenizer_config.json", R"({"legacy": false, "add_bos_token": false})");
  const text::Tokenizer modern(read());
  EXPECT_EQ(modern.decode(modern.encode("a</s>a"), false), "a</s>a");
}

TEST_F(HfTokenizer, WhatIsNotThereIsNamed) {
  write("tokenizer.json", golden("gpt2.json"));
  write("tokenizer_config.json", R"({"bos_token": "<nosuch>"})");
  EXPECT_THAT(outcome(), HasSubstr("'bos_token' is '<nosuch>', which the vocabulary lacks"));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})");
  EXPECT_THAT(outcome(), HasSubstr("'x' is no token id"));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<new>"}}})");
  EXPECT_THAT(outcome(), HasSubstr("the id 5 belongs to two tokens"));
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"9999999": {"content": "<new>"}}})");
  EXPECT_THAT(outcome(), HasSubstr("far outside the vocabulary"));
  write("tokenizer_config.json", "[]");
  EXPECT_THAT(outcome(), HasSubstr("tokenizer_config.json"));
}

// --- tokenizer.json, one thing changed -----------------------------------------------------------

std::string outcome_of(const std::string& json) {
  try {
    const text::Tokenizer tokenizer(read_tokenizer_json(json, "t.json"));
    return "no error";
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
}

struct Change {
  const char* pointer;
  const char* value;
  const char* message;
};

void expect_outcomes(const std::string& kind, const std::vector<Change>& changes) {
  const Json good = parse_json(golden(kind), kind, Code::kInvalidModel);
  EXPECT_EQ(outcome_of(good.dump()), "no error");
  for (const Change& change : changes) {
    Json json = good;
    json[Json::json_pointer(change.pointer)] = Json::parse(change.value);
    EXPECT_THAT(outcome_of(json.dump()), HasSubstr(change.message))
        << change.pointer << " = " << change.value;
  }
}

TEST(TokenizerJson, WhatIsNotUnderstoodIsRefusedByName) {
  expect_outcomes(
      "llama3.json",
      {{"/novelty", "1", "unsupported: hf: t.json: the file: the field 'novelty'"},
       {"/normalizer", R"({"type": "BertNormalizer"})", "the normalizer 'BertNormalizer'"},
       {"/normalizer", R"({"type": "NFC", "form": 2})", "the field 'form'"},
       {"/normalizer", R"({"type": "Replace", "pattern": {"Glob": "*"}, "content": ""})", "'Glob'"},
       {"/pre_tokenizer", R"({"type": "UnicodeScripts"})", "the pre-tokenizer 'UnicodeScripts'"},
       {"/pre_tokenizer/pretokenizers/0/behavior", R"("Sometimes")", "the behavior 'Sometimes'"},
       {"/pre_tokenizer", R"({"type": "Whitespace"})", "must both be ByteLevel, or neither"},
       {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
                              {"type": "Digits"}]})",
        "ByteLevel pre-tokenizer that is not the last"},
       {"/post_processor", R"({"type": "Magic"})", "the post-processor 'Magic'"},
       {"/decoder", R"({"type": "WordPiece"})", "the decoder 'WordPiece'"},
       {"/decoder", "null", "must both be ByteLevel, or neither"},
       {"/decoder", R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"},
                        {"type": "ByteFallback"}]})",
        "a ByteLevel decoder among others"},
       {"/model/type", R"("WordPiece")", "models of type 'WordPiece'"},
       {"/model/dropout", "0.1", "'dropout' makes ids random"},
       {"/model/continuing_subword_prefix", R"("##")", "'continuing_subword_prefix' is '##'"},
       {"/model/end_of_word_suffix", R"("</w>")", "'end_of_word_suffix' is '</w>'"},
       {"/model/byte_fallback", "true", "'byte_fallback' beside a ByteLevel"},
       {"/model/novelty", "true", "the field 'novelty'"},
       {"/added_tokens/0/sticky", "true", "the field 'sticky'"}});
  expect_outcomes("mistral.json",
                  {{"/pre_tokenizer/prepend_scheme", R"("last")", "the prepend_scheme 'last'"},
                   {"/decoder/decoders/3/stop", "1", "strips the end of the whole text"},
                   {"/decoder", "null", "no decoder"},
                   {"/model/unk_token", R"("<nosuch>")", "unk_token '<nosuch>'"}});
}

TEST(TokenizerJson, DamageIsNamed) {
  expect_outcomes(
      "llama3.json",
      {{"/model", "null", "'model' is missing"},
       {"/model", "[]", "must be an object"},
       {"/model/vocab", "null", "'vocab' is missing"},
       {"/model/vocab", "[]", "an object of tokens and ids"},
       {"/model/vocab", R"({"a": "b"})", "must be a number"},
       {"/model/vocab", R"({"a": 0.5})", "must be an integer"},
       {"/model/vocab", R"({"a": -1})", "token id -1"},
       {"/model/vocab", R"({"a": 0, "b": 0})", "the id 0 belongs to two tokens"},
       {"/model/vocab", R"({"a": 2000000000})", "far outside"},
       {"/model/vocab", R"({"a": 1e300})", "must be an integer"},
       {"/model/vocab", "{}", "invalid_model"},
       {"/model/merges", "null", "'merges' is missing"},
       {"/model/merges", "{}", "a list of merges"},
       {"/model/merges", "[1]", "must be two tokens"},
       {"/model/merges", R"(["ab"])", "not two tokens"},
       {"/model/merges", R"(["nosuch a"])", "needs the token 'nosuch'"},
       {"/model/merges", R"([["a"]])", "must be two tokens"},
       {"/model/merges", R"([["a", 1]])", "must be a string"},
       {"/model/merges", R"(["a b", ["a", "b"]])", "invalid_model"},
       {"/model/ignore_merges", "1", "true or false"},
       {"/model/unk_token", "3", "must be a string"},
       {"/added_tokens", "{}", "a list of tokens"},
       {"/added_tokens", "[3]", "invalid_model"},
       {"/added_tokens/0/id", R"("0")", "must be a number"},
       {"/added_tokens/0/content", "null", "'content' is missing"},
       {"/added_tokens/0/lstrip", R"("yes")", "true or false"},
       {"/pre_tokenizer", "[]", "an object"},
       {"/pre_tokenizer/type", "null", "'type' is missing"},
       {"/pre_tokenizer/pretokenizers", "null", "'pretokenizers' is missing"},
       {"/pre_tokenizer/pretokenizers", "3", "a list"},
       {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex": "(a"})", "split pattern '(a'"},
       {"/pre_tokenizer/pretokenizers/0/pattern", "{}", "invalid_model"},
       {"/pre_tokenizer/pretokenizers/0/pattern", "3", "invalid_model"},
       {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})", "is damaged"},
       {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "\n"})", "base64"},
       {"/normalizer", R"({"type": "Prepend"})", "'prepend' is missing"},
       {"/post_processor/processors/1/single", "null", "'single' is missing"},
       {"/post_processor/processors/1/single", "[]", "a template without the text"},
       {"/post_processor/processors/1/single", R"([{"SpecialToken": {"id": "<x>"}}])", "<x>"},
       {"/post_processor/processors/1/special_tokens/<s>/ids", "[99999]", "put in front is 99999"},
       {"/post_processor/processors/1/special_tokens/<s>/ids", "[-1]", "put in front is -1"},
       {"/post_processor/processors/1/special_tokens/<s>/ids", "3", "a list of ids"},
       {"/decoder", "3", "an object"}});
  expect_outcomes("unigram.json", {{"/model/vocab", "{}", "a list of pieces and scores"},
                                   {"/model/vocab", R"([["a"]])", "a piece and its score"},
                                   {"/model/vocab", R"([["a", "b"]])", "must be a number"},
                                   {"/model/vocab", "[]", "invalid_model"},
                                   {"/model/vocab", R"([["<unk>", -1e40]])", "a score of -1e+40"},
                                   {"/model/unk_id", "99999", "unknown_token_id is 99999"},
                                   {"/model/unk_id", "-1", "unknown_token_id is -1"}});
  EXPECT_THAT(outcome_of(""), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(outcome_of("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(outcome_of(std::string(100'000, '[')), HasSubstr("nested deeper"));
}

TEST(TokenizerJson, RegexesCannotRunForEver) {
  Json json = parse_json(golden("llama3.json"), "llama3", Code::kInvalidModel);
  json[Json::json_pointer("/pre_tokenizer/pretokenizers/0/pattern/Regex")] = "(a+)+(a+)+(a+)+$";
  const text::Tokenizer tokenizer(read_tokenizer_json(json.dump(), "t.json"));
  try {
    tokenizer.encode(std::string(20'000, 'a') + "b");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidRequest);
    EXPECT_THAT(error.what(), HasSubstr("met its limits"));
  }
}

// --- damage anywhere
// ------------------------------------------------------------------------------

// Every cut and every changed byte gives an error of ours or a tokenizer that works.
void survive(const std::function<text::TextModel(const std::string&)>& read_bytes,
             const std::string& bytes) {
  try {
    const text::Tokenizer tokenizer(read_bytes(bytes));
    tokenizer.decode(tokenizer.encode("a WORD \u00e9 <mask> \xff 12"));
  } catch (const Error& error) {
    EXPECT_NE(error.code(), Code::kInternal) << error.what();
  }
}

void survive_damage(const std::function<text::TextModel(const std::string&)>& read_bytes,
                    const std::string& good) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    survive(read_bytes, good.substr(0, random() % good.size()));
    std::string damaged = good;
    for (int i = 0; i < 1 + round % 4; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    survive(read_bytes, damaged);
  }
}

TEST(TokenizerDamage, Json) {
  const auto read_bytes = [](const std::string& bytes) {
    return read_tokenizer_json(bytes, "t.json");
  };
  survive_damage(read_bytes, golden("mistral.json"));
  survive_damage(read_bytes, golden("charsmap.json"));
}

TEST(TokenizerDamage, SentencePieceModel) {
  const auto read_bytes = [](const std::string& bytes) {
    return read_tokenizer_model(std::as_bytes(std::span(bytes)), "t.model", {});
  };
  survive_damage(read_bytes, golden("sp_bpe.model"));
  survive_damage(read_bytes, golden("sp_unigram.model"));
}

TEST(TokenizerDamage, SentencePieceMessagesAreNamed) {
  const auto outcome = [](const std::string& bytes) -> std::string {
    try {
      read_tokenizer_model(std::as_bytes(std::span(bytes)), "t.model", {});
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string piece(
      "\x0a\x03\x0a\x01"
      "a",
      5);  // pieces { piece: "a" }
  EXPECT_THAT(outcome(""), HasSubstr("holds no pieces"));
  EXPECT_THAT(outcome("\x0a\x7f"), HasSubstr("ends in the middle"));
  EXPECT_THAT(outcome("\x0a\x03\x0a\x7f"
                      "a"),
              HasSubstr("ends in the middle"));
  EXPECT_THAT(outcome(std::string(12, '\xff')), HasSubstr("more than ten bytes"));
  EXPECT_THAT(outcome(std::string("\x00\x01", 2)), HasSubstr("no protobuf file"));
  EXPECT_THAT(outcome("\x0b"), HasSubstr("no protobuf file"));
  EXPECT_THAT(outcome(std::string("\x08\x01", 2)), HasSubstr("has wire type 0, not 2"));
  EXPECT_THAT(outcome("\x0a\x02\x18\x09"), HasSubstr("piece 0 has type 9"));
  EXPECT_THAT(outcome("\x0a\x05\x15" + std::string("\x00\x00\xc0\x7f", 4)),
              HasSubstr("no finite number"));
  EXPECT_THAT(outcome(piece + "\x12\x02\x18\x03"), HasSubstr("a SentencePiece model of type 3"));
  EXPECT_THAT(outcome(piece + "\x12\x03\xc0\x01\x01"), HasSubstr("treat_whitespace_as_suffix"));
  EXPECT_THAT(outcome(piece + std::string("\x1a\x02\x28\x00", 4)), HasSubstr("escape_whitespaces"));
}

}  // namespace
}  // namespace kvern::import::hf
