// The whole road on the tiny model of every family: folder or GGUF, compiled with f32 weights and
// KV, served by a real engine, against transformers in fp32 (scripts/golden/tiny_families.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "compile/driver.h"
#include "run/engine/engine.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const plan::PlanFile> build(const std::string& model, const std::string& name) {
  compile::BuildRequest request;
  request.model_path = model;
  request.plan_path = ::testing::TempDir() + "run_engine_family_" + name + ".plan";
  request.weights = quantize::WeightChoice::kF32;
  request.kv_storage = DType::kF32;
  compile::build(request);
  auto file = std::make_shared<const plan::PlanFile>(request.plan_path);
  std::filesystem::remove(request.plan_path);  // the mapping keeps it
  return file;
}

Ids greedy_answer(Engine& engine, const Ids& prompt, size_t tokens) {
  RequestSpec spec;
  spec.prompt_ids = prompt;
  spec.max_new_tokens = static_cast<int32_t>(tokens);
  spec.ignore_eos = true;
  const auto generation = engine.submit(std::move(spec));
  Event event;
  while (generation->next(event)) {
  }
  EXPECT_EQ(event.kind, EventKind::kFinished) << event.message;
  return generation->ids();
}

void expect_answers(std::shared_ptr<const plan::PlanFile> file, const Ids& prompt,
                    const Json& answers, bool plain_kernels) {
  EngineOptions options;
  options.plain_kernels = plain_kernels;
  Engine engine(std::move(file), options);
  const auto greedy = answers.at("greedy_ids").get<Ids>();
  EXPECT_EQ(greedy_answer(engine, prompt, greedy.size()), greedy);
  const auto want = answers.at("logits").get<std::vector<float>>();
  float worst = 0;
  engine.score(prompt, {static_cast<int32_t>(prompt.size()) - 1},
               [&](int32_t, std::span<const float> logits) {
                 ASSERT_EQ(logits.size(), want.size());
                 for (size_t i = 0; i < want.size(); ++i) {
                   worst = std::max(worst, std::abs(logits[i] - want[i]));
                 }
               });
  EXPECT_LT(worst, 1e-4f);
}

class TinyFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyFamily, GivesTransformersIdsAndLogits) {
  const std::string name = GetParam();
  const std::string folder = KVERN_TEST_DATA "/golden/tiny_" + name;
  const Json golden =
      parse_json(read_text_file(folder + "/golden.json", 1 << 20), "golden", Code::kIo);
  const auto prompt = golden.at("ids").get<Ids>();
  const auto file = build(folder, name);
  EXPECT_EQ(file->plan().generation.stop_ids, (Ids{1, 5}));
  EXPECT_EQ(file->plan().generation.temperature, 0.6);
  EXPECT_EQ(file->plan().generation.top_k, 20);
  for (const bool plain : {true, false}) {
    SCOPED_TRACE(plain ? "folder, plain kernels" : "folder");
    expect_answers(file, prompt, golden, plain);
  }
  if (!golden.contains("gguf")) return;
  SCOPED_TRACE("gguf");
  const auto gguf = build(folder + "/model.gguf", name + "_gguf");
  expect_answers(gguf, prompt, golden.at("gguf"), /*plain_kernels=*/false);
}

INSTANTIATE_TEST_SUITE_P(Families, TinyFamily,
                         ::testing::Values("llama", "llama_yarn", "mistral", "qwen2", "qwen3",
                                           "gemma2", "gemma3", "phi3", "phi3_longrope", "olmo2",
                                           "granite", "smollm3", "gpt2", "gpt_neox"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace kvern::engine
