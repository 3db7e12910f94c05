// Gemma 3 270M, a real file of Q5_0, Q4_K, Q6_K and Q8_0 tensors: five of six layers see 512
// positions and turn by a base of their own. Against transformers' fp32 run of the same file, which
// tests/golden/gemma3_greedy.json keeps (scripts/golden/gemma3_reference.py).
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/measure/smollm2.h"
#include "text/tokenizer.h"

namespace kvern::measure {
namespace {

namespace fs = std::filesystem;

// $KVERN_GEMMA3, else where scripts/fetch_model puts it; "" when there is none.
std::string gemma3_path() {
  const char* given = std::getenv("KVERN_GEMMA3");
  const std::string path =
      given != nullptr ? given : KVERN_TEST_DATA "/../.cache/models/gemma-3-270m-q4_k_m.gguf";
  return fs::exists(path) ? path : "";
}

class Gemma3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gemma3_path().empty()) {
      GTEST_SKIP() << "Gemma 3 is not here: scripts/fetch_model --model gemma3-270m";
    }
    folder_ = fs::temp_directory_path() / fmt::format("kvern_gemma3_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
  }

  std::shared_ptr<const plan::PlanFile> build(quantize::WeightChoice weights, DType kv) const {
    compile::BuildRequest request;
    request.model_path = gemma3_path();
    request.plan_path = (folder_ / "gemma3.plan").string();
    request.weights = weights;
    request.kv_storage = kv;
    request.max_context_length = 1024;
    compile::build(request);
    return std::make_shared<const plan::PlanFile>(request.plan_path);
  }

 private:
  fs::path folder_;
};

std::vector<int32_t> answer(engine::Engine& engine, const Json& prompt, size_t count) {
  engine::RequestSpec spec;
  spec.prompt_ids = prompt.at("prompt_ids").get<std::vector<int32_t>>();
  spec.max_new_tokens = static_cast<int32_t>(count);
  spec.ignore_eos = true;
  const auto generation = engine.submit(spec);
  engine::Event event;
  while (generation->next(event)) {
    EXPECT_NE(event.kind, engine::EventKind::kFailed) << event.message;
  }
  return generation->ids();
}

// Logits of the probes after the prompt and before the last answered token.
double worst_probe(engine::Engine& engine, const Json& file, const Json& prompt) {
  auto ids = prompt.at("prompt_ids").get<std::vector<int32_t>>();
  const auto first = static_cast<int32_t>(ids.size()) - 1;
  const auto answered = prompt.at("ids").get<std::vector<int32_t>>();
  ids.insert(ids.end(), answered.begin(), answered.end() - 1);
  const auto probes = file.at("probe_ids").get<std::vector<size_t>>();
  double worst = 0;
  const std::vector<int32_t> rows = {first, static_cast<int32_t>(ids.size()) - 1};
  engine.score(ids, rows, [&](int32_t position, std::span<const float> logits) {
    const Json& wanted = prompt.at(position == first ? "first_probe" : "last_probe");
    for (size_t i = 0; i < probes.size(); ++i) {
      worst = std::max(worst, std::fabs(logits[probes[i]] - wanted[i].get<double>()));
    }
  });
  return worst;
}

using SlowGemma3Reference = Gemma3Test;
using E2eGemma3 = Gemma3Test;

TEST_F(SlowGemma3Reference, GreedyIdsAndLogitsEqualTransformers) {
  engine::EngineOptions options;
  options.plain_kernels = true;
  options.kv_capacity_tokens = 2048;
  engine::Engine engine(build(quantize::WeightChoice::kF32, DType::kF32), options);
  const Json file = golden("gemma3_greedy.json");
  double worst = 0;
  for (const Json& prompt : file.at("prompts")) {
    const auto wanted = prompt.at("ids").get<std::vector<int32_t>>();
    EXPECT_EQ(answer(engine, prompt, wanted.size()), wanted) << prompt.at("text");
    worst = std::max(worst, worst_probe(engine, file, prompt));
  }
  std::printf("largest logit difference from transformers fp32: %.2e\n", worst);
  EXPECT_LE(worst, 2e-4);
}

// The long prompt is no text of its own in the golden file.
void expect_encodings(const text::TextModel& model, const Json& file) {
  const text::Tokenizer tokenizer(model);
  for (size_t i = 0; i < 3; ++i) {
    const Json& prompt = file.at("prompts")[i];
    EXPECT_EQ(tokenizer.encode(prompt.at("text").get<std::string>()),
              prompt.at("prompt_ids").get<std::vector<int32_t>>());
  }
}

// The file's own blocks and the fast kernels: bf16 activations move logits of 20 by a few tenths.
TEST_F(E2eGemma3, KeptWeightsAnswerAsTransformers) {
  engine::EngineOptions options;
  options.kv_capacity_tokens = 2048;
  const auto plan = build(quantize::WeightChoice::kKeep, DType::kI8);
  engine::Engine engine(plan, options);
  const Json file = golden("gemma3_greedy.json");
  expect_encodings(plan->plan().text, file);
  const Json& first = file.at("prompts")[0];
  auto wanted = first.at("ids").get<std::vector<int32_t>>();
  wanted.resize(8);
  EXPECT_EQ(answer(engine, first, wanted.size()), wanted);
  for (const Json& prompt : file.at("prompts")) EXPECT_LE(worst_probe(engine, file, prompt), 1.0);
}

}  // namespace
}  // namespace kvern::measure
