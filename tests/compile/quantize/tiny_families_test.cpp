// Every family's tiny model, imported from its Hugging Face folder and (where there is one) its
// GGUF file and evaluated plainly, against transformers in fp32 (scripts/golden/tiny_families.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "compile/eval/eval.h"
#include "compile/import/import.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {
namespace {

constexpr double kTolerance = 1e-4;

class SourceWeights final : public eval::WeightProvider {
 public:
  explicit SourceWeights(const Files& files) : files_(files) {}
  eval::HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override {
    return {weight.shape, materialize_f32(graph, weight, files_), {}};
  }

 private:
  const Files& files_;
};

// The last row of logits of `ids` at positions from `start`; their K and V join `kv`.
std::vector<float> last_row(const import::ImportedModel& model, const std::vector<int32_t>& ids,
                            int32_t start, eval::KvState& kv) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < ids.size(); ++i) positions.push_back(start + static_cast<int32_t>(i));
  const Shape shape = {static_cast<int64_t>(ids.size())};
  SourceWeights weights(model.files);
  const auto outputs = eval::run(
      model.graph, {{"ids", {shape, {}, ids}}, {"positions", {shape, {}, positions}}}, weights, kv);
  const std::vector<float>& logits = outputs.at("logits").f32;
  return {logits.end() - model.vocabulary_size, logits.end()};
}

void expect_answers(const import::ImportedModel& model, const Json& ids, const Json& answers) {
  auto prompt = ids.get<std::vector<int32_t>>();
  const auto want = answers.at("logits").get<std::vector<float>>();
  eval::KvState kv;
  std::vector<float> row = last_row(model, prompt, 0, kv);
  ASSERT_EQ(row.size(), want.size());
  double worst = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(row[i]) - want[i]));
  }
  EXPECT_LT(worst, kTolerance);
  auto position = static_cast<int32_t>(prompt.size());
  for (const int32_t next : answers.at("greedy_ids").get<std::vector<int32_t>>()) {
    ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), next) << position;
    row = last_row(model, {next}, position++, kv);
  }
}

class TinyFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyFamily, FolderAndGgufGiveTransformersLogitsAndIds) {
  const std::string folder = std::string(KVERN_TEST_DATA "/golden/tiny_") + GetParam();
  const Json golden = parse_json(read_text_file(folder + "/golden.json", 1 << 20), "golden.json",
                                 Code::kInvalidModel);
  {
    SCOPED_TRACE("folder");
    const import::ImportedModel model = import::load(folder);
    EXPECT_EQ(model.stop_ids, (std::vector<int32_t>{1, 5}));
    EXPECT_EQ(model.generation.temperature, 0.6);
    expect_answers(model, golden.at("ids"), golden);
  }
  if (!golden.contains("gguf")) return;
  SCOPED_TRACE("gguf");
  expect_answers(import::load(folder + "/model.gguf"), golden.at("ids"), golden.at("gguf"));
}

INSTANTIATE_TEST_SUITE_P(Families, TinyFamily,
                         ::testing::Values("llama", "llama_yarn", "mistral", "qwen2", "qwen3",
                                           "gemma2", "gemma3", "phi3", "phi3_longrope", "olmo2",
                                           "granite", "smollm3", "gpt2", "gpt_neox"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kvern::quantize
