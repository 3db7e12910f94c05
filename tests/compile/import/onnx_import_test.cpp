// An .onnx file with what lies beside it, as a model.
#include <algorithm>

#include "compile/import/import.h"
#include "tests/compile/import/onnx_refusal.h"

namespace kvern::import::onnx {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// logits = table[input_ids] @ w, 6 tokens, hidden 2; `scale` is the first element of w.
std::string language_model(float scale = 1, const char* vocabulary = "6") {
  Msg graph;
  graph.sub(1, node("Gather", {"table", "input_ids"}, {"h"}, "embed"));
  graph.sub(1, node("MatMul", {"h", "w"}, {"logits"}, "head"));
  graph.sub(5, floats("table", {6, 2}, std::vector<float>(12, 0.5F)));
  graph.sub(5, floats("w", {2, 6}, {scale, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  graph.sub(11, value_info("input_ids", 7, {"batch", "seq"}));
  graph.sub(12, value_info("logits", 1, {"batch", "seq", vocabulary}));
  return model(graph).bytes;
}

constexpr const char* kConfig = R"({"model_type": "gemma2", "vocab_size": 6, "hidden_size": 2,
  "num_hidden_layers": 3, "max_position_embeddings": 64, "sliding_window": 16,
  "layer_types": ["sliding_attention", "full_attention"], "final_logit_softcapping": 30.0,
  "attn_logit_softcapping": null, "eos_token_id": [1, 9],
  "rope_scaling": {"rope_type": "longrope", "original_max_position_embeddings": 32}})";

TEST(OnnxImport, AFileAlone) {
  const TempFolder folder;
  const ImportedModel model = load(folder.write("tiny model.onnx", language_model()));
  ASSERT_NE(model.tensor, nullptr);
  EXPECT_TRUE(model.graph.nodes().empty());
  EXPECT_THAT(model.graph.files, ElementsAre("tiny model.onnx"));
  EXPECT_EQ(model.family, "onnx");
  EXPECT_EQ(model.name, "tiny model");
  EXPECT_EQ(model.vocabulary_size, 6);
  EXPECT_EQ(model.hidden_size, 2);
  EXPECT_EQ(model.num_parameters, 24);
  EXPECT_EQ(model.max_context_length, 0);
  EXPECT_FALSE(model.config.has_value());
  EXPECT_THAT(model.warnings, Contains(HasSubstr("token ids only")));
  ASSERT_EQ(model.tensors.size(), 2u);
  EXPECT_EQ(model.tensors[0].name, "table");
  EXPECT_EQ(model.tensors[0].source_type, "float");
}

TEST(OnnxImport, TheConfigurationBeside) {
  const TempFolder folder;
  folder.write("tiny/model.onnx", language_model(1, "vocab"));
  folder.write("tiny/config.json", kConfig);
  folder.write("tiny/generation_config.json",
               R"({"eos_token_id": 2, "do_sample": true, "temperature": 0.7})");
  const ImportedModel model = load((folder.path / "tiny").string());
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.family, "gemma2");
  EXPECT_EQ(model.vocabulary_size, 6);
  EXPECT_EQ(model.num_layers, 3);
  EXPECT_EQ(model.max_context_length, 64);
  EXPECT_THAT(model.stop_ids, ElementsAre(2));
  EXPECT_DOUBLE_EQ(model.generation.temperature, 0.7);
  ASSERT_TRUE(model.config.has_value());
  EXPECT_EQ(model.config->rope_type, "longrope");
  EXPECT_EQ(model.config->original_context_length, 32);
  EXPECT_EQ(model.config->sliding_window, 16);
  EXPECT_EQ(model.config->layer_types.size(), 2u);
  EXPECT_EQ(model.config->final_softcap, 30.0);
  EXPECT_EQ(model.config->attention_softcap, 0.0);
}

TEST(OnnxImport, ASubfolderUsesWhatLiesAbove) {
  const TempFolder folder;
  folder.write("tiny/onnx/model.onnx", language_model());
  folder.write("tiny/config.json", kConfig);
  const ImportedModel model = load((folder.path / "tiny").string());
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.max_context_length, 64);
  EXPECT_THAT(model.warnings, Contains(HasSubstr("stop id 9")));
}

TEST(OnnxImport, GenaiConfigurationsSayLess) {
  const TempFolder folder;
  folder.write("model.onnx", language_model());
  folder.write("genai_config.json",
               R"({"model": {"type": "llama", "context_length": 128, "eos_token_id": 3}})");
  const ImportedModel model = load(folder.path.string());
  EXPECT_EQ(model.family, "llama");
  EXPECT_EQ(model.max_context_length, 128);
  EXPECT_THAT(model.stop_ids, ElementsAre(3));
}

TEST(OnnxImport, AConfigurationOfNoUseIsAWarning) {
  const TempFolder folder;
  folder.write("model.onnx", language_model());
  folder.write("config.json", "[1, 2");
  EXPECT_THAT(load(folder.path.string()).warnings, Contains(HasSubstr("config.json beside")));
  folder.write("config.json", R"({"vocab_size": "many", "sliding_window": -4, "layer_types": 3})");
  const ImportedModel model = load(folder.path.string());
  EXPECT_EQ(model.vocabulary_size, 6);
  EXPECT_EQ(model.config->sliding_window, 0);
}

TEST(OnnxImport, TheHashKnowsElementsAndNodesButNotPlaces) {
  const TempFolder folder;
  const auto hash = [&](const std::string& name, const std::string& bytes) {
    return load(folder.write(name, bytes)).source_hash;
  };
  const std::string whole = language_model();
  const std::string first = hash("a.onnx", whole);
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(first, hash("b.onnx", whole + Msg().sub(14, Msg().text(1, "k").text(2, "v")).bytes));
  EXPECT_NE(first, hash("c.onnx", language_model(2)));
  std::string other_op = whole;
  other_op.replace(other_op.find("MatMul"), 6, "MatSum");
  EXPECT_NE(first, hash("d.onnx", other_op));
}

TEST(OnnxImport, ProgressReachesTheEnd) {
  const TempFolder folder;
  uint64_t done = 0;
  uint64_t total = 1;
  LoadOptions options;
  options.progress = [&](uint64_t now, uint64_t all) {
    done = now;
    total = all;
  };
  load(folder.write("a.onnx", language_model()), options);
  EXPECT_EQ(done, total);
  EXPECT_EQ(total, 96u);
}

TEST(OnnxImport, TheTokenizerBeside) {
  const TempFolder folder;
  folder.write("model.onnx", language_model(1, "4096"));
  std::filesystem::copy(KVERN_TEST_DATA "/golden/tok_smollm.json", folder.path / "tokenizer.json");
  const ImportedModel model = load(folder.path.string());
  EXPECT_GT(model.text.vocabulary_size(), 100);
  EXPECT_THAT(model.warnings, Not(Contains(HasSubstr("token ids only"))));
  // One that belongs to another model.
  folder.write("model.onnx", language_model(1, "6"));
  EXPECT_THAT(refusal_of(Code::kInvalidModel, [&] { load(folder.path.string()); }),
              HasSubstr("do not belong together"));
}

TEST(OnnxImport, SafetensorsOfTheSameFolderComeFirst) {
  const TempFolder folder;
  std::filesystem::copy(KVERN_TEST_DATA "/golden/tiny_llama", folder.path / "m");
  const std::string file = folder.write("m/onnx/model.onnx", language_model());
  const ImportedModel model = load((folder.path / "m").string());
  EXPECT_EQ(model.tensor, nullptr);
  EXPECT_THAT(model.warnings, Contains(HasSubstr("give '" + file + "'")));
  EXPECT_NE(load(file).tensor, nullptr);
}

TEST(OnnxImport, FoldersWithoutAModelSaySo) {
  const TempFolder folder;
  folder.write("a.onnx", "x");
  folder.write("b.onnx", "x");
  EXPECT_THAT(refusal_of(Code::kInvalidModel, [&] { load(folder.path.string()); }),
              HasSubstr("a.onnx, b.onnx"));
}

}  // namespace
}  // namespace kvern::import::onnx
