// The tiny Llamas, imported and evaluated plainly, against transformers in fp32
// (scripts/golden/tiny_llama.py): import, recipes, decoders and the family's graph in one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "compile/eval/eval.h"
#include "compile/import/import.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {
namespace {

class SourceWeights final : public eval::WeightProvider {
 public:
  explicit SourceWeights(const Files& files) : files_(files) {}
  eval::HostTensor load(const ir::Graph& graph, const ir::Weight& weight) override {
    return {weight.shape, materialize_f32(graph, weight, files_), {}};
  }

 private:
  const Files& files_;
};

eval::HostTensor ids_tensor(const std::vector<int32_t>& ids) {
  return {{static_cast<int64_t>(ids.size())}, {}, ids};
}

// Logits of tokens `ids` at positions from `start`; their K and V join `kv`.
std::vector<float> logits(const import::ImportedModel& model, const std::vector<int32_t>& ids,
                          int32_t start, eval::KvState& kv) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < ids.size(); ++i) positions.push_back(start + static_cast<int32_t>(i));
  SourceWeights weights(model.files);
  auto outputs = eval::run(
      model.graph, {{"ids", ids_tensor(ids)}, {"positions", ids_tensor(positions)}}, weights, kv);
  return outputs.at("logits").f32;
}

void check_prompt(const import::ImportedModel& model, const Json& prompt) {
  const auto ids = prompt.at("ids").get<std::vector<int32_t>>();
  const auto want = prompt.at("logits").get<std::vector<std::vector<float>>>();
  const auto from = prompt.at("logits_from").get<size_t>();
  const auto vocabulary = static_cast<size_t>(model.vocabulary_size);
  eval::KvState kv;
  std::vector<float> got = logits(model, ids, 0, kv);
  ASSERT_EQ(got.size(), ids.size() * vocabulary);
  double worst = 0;
  for (size_t row = 0; row < want.size(); ++row) {
    for (size_t i = 0; i < vocabulary; ++i) {
      const float value = got[(from + row) * vocabulary + i];
      worst = std::max(worst, std::fabs(static_cast<double>(value) - want[row][i]));
    }
  }
  EXPECT_LT(worst, 1e-4) << prompt.at("text");
  auto position = static_cast<int32_t>(ids.size());
  for (const int32_t next : prompt.at("greedy_ids").get<std::vector<int32_t>>()) {
    const auto last = got.end() - static_cast<std::ptrdiff_t>(vocabulary);
    ASSERT_EQ(std::max_element(last, got.end()) - last, next) << "position " << position;
    got = logits(model, {next}, position++, kv);
  }
}

TEST(TinyLlama, PlainGraphGivesTransformersLogitsAndIds) {
  const std::string folder = KVERN_TEST_DATA "/golden/";
  const Json golden = parse_json(read_text_file(folder + "tiny_llama.json", 1 << 20),
                                 "tiny_llama.json", Code::kInvalidModel);
  for (const auto& [file, answers] : golden.at("models").items()) {
    SCOPED_TRACE(file);
    const import::ImportedModel model = import::load(folder + file);
    EXPECT_EQ(answers.at("prompts").size(), 4u);
    for (const Json& prompt : answers.at("prompts")) check_prompt(model, prompt);
  }
}

}  // namespace
}  // namespace kvern::quantize
