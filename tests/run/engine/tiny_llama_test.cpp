// The whole road on a tiny Llama: compiled here, served by a real engine. The golden file holds
// what transformers says in fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "compile/driver.h"
#include "run/engine/engine.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;
using quantize::WeightChoice;

std::shared_ptr<const plan::PlanFile> build(const std::string& model, WeightChoice weights,
                                            DType kv_storage) {
  compile::BuildRequest request;
  request.model_path = KVERN_TEST_DATA "/golden/" + model;
  request.plan_path = ::testing::TempDir() + "run_engine_" + model + ".plan";
  request.weights = weights;
  request.kv_storage = kv_storage;
  compile::build(request);
  auto file = std::make_shared<const plan::PlanFile>(request.plan_path);
  std::filesystem::remove(request.plan_path);  // the mapping keeps it
  return file;
}

Ids answer_of(Generation& generation) {
  Event event;
  while (generation.next(event)) {
  }
  EXPECT_EQ(event.kind, EventKind::kFinished) << event.message;
  return generation.ids();
}

RequestSpec spec_of(Ids prompt, int32_t tokens) {
  RequestSpec spec;
  spec.prompt_ids = std::move(prompt);
  spec.max_new_tokens = tokens;
  spec.ignore_eos = true;
  return spec;
}

void expect_all_pages_free(Engine& engine) {
  engine.wait_idle();
  for (const kv::PoolCounts& counts : engine.stats().pages) {
    EXPECT_EQ(counts.free + counts.cached, counts.total);
  }
}

class TinyLlamaGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyLlamaGolden, PlainF32GivesTransformersIdsAndLogits) {
  const Json golden = parse_json(read_text_file(KVERN_TEST_DATA "/golden/tiny_llama.json", 1 << 24),
                                 "golden", Code::kIo);
  EngineOptions options;
  options.plain_kernels = true;
  Engine engine(build(GetParam(), WeightChoice::kF32, DType::kF32), options);
  for (const Json& prompt : golden["models"][GetParam()]["prompts"]) {
    const auto ids = prompt["ids"].get<Ids>();
    const auto wanted = prompt["greedy_ids"].get<Ids>();
    const auto generation = engine.submit(spec_of(ids, static_cast<int32_t>(wanted.size())));
    EXPECT_EQ(answer_of(*generation), wanted) << prompt["text"];

    const auto rows = prompt["logits"].get<std::vector<std::vector<float>>>();
    const auto first = prompt["logits_from"].get<int32_t>();
    Ids positions;
    for (size_t r = 0; r < rows.size(); ++r) positions.push_back(first + static_cast<int32_t>(r));
    float worst = 0;
    engine.score(ids, positions, [&](int32_t position, std::span<const float> logits) {
      const std::vector<float>& row = rows[static_cast<size_t>(position - first)];
      ASSERT_EQ(logits.size(), row.size());
      for (size_t i = 0; i < row.size(); ++i) worst = std::max(worst, std::abs(logits[i] - row[i]));
    });
    EXPECT_LT(worst, 2e-3f) << prompt["text"];
  }
  expect_all_pages_free(engine);
}

INSTANTIATE_TEST_SUITE_P(Models, TinyLlamaGolden,
                         ::testing::Values("tiny_llama.gguf", "tiny_llama_q.gguf"),
                         [](const auto& info) { return info.index == 0 ? "floats" : "quantised"; });

// Eight prompts of other lengths, the longest of several chunks.
std::vector<Ids> eight_prompts() {
  std::vector<Ids> out;
  for (int32_t p = 0; p < 8; ++p) {
    Ids& ids = out.emplace_back();
    const int32_t length = 1 + p * 13 + (p == 7 ? 60 : 0);
    for (int32_t i = 0; i < length; ++i) ids.push_back((p * 31 + i * 17 + i * i) % 320);
  }
  return out;
}

constexpr int32_t kAnswer = 12;

std::vector<Ids> answers_alone(std::shared_ptr<const plan::PlanFile> file) {
  EngineOptions options;
  options.max_sequences = 1;
  Engine engine(std::move(file), options);
  std::vector<Ids> out;
  for (const Ids& prompt : eight_prompts()) {
    out.push_back(answer_of(*engine.submit(spec_of(prompt, kAnswer))));
  }
  return out;
}

std::vector<Ids> answers_together(Engine& engine, bool recompute) {
  std::vector<std::shared_ptr<Generation>> generations;
  for (const Ids& prompt : eight_prompts()) {
    RequestSpec spec = spec_of(prompt, kAnswer);
    spec.recompute_context = recompute;
    generations.push_back(engine.submit(std::move(spec)));
  }
  std::vector<Ids> out;
  for (const auto& generation : generations) out.push_back(answer_of(*generation));
  return out;
}

struct Storage {
  const char* name;
  WeightChoice weights;
  DType kv;
};

class TinyLlamaTogether : public ::testing::TestWithParam<Storage> {};

TEST_P(TinyLlamaTogether, GivesTheIdsThatEachGivesAlone) {
  const auto file = build("tiny_llama.gguf", GetParam().weights, GetParam().kv);
  const std::vector<Ids> alone = answers_alone(file);
  for (const int32_t chunk : {7, 64, 512}) {
    EngineOptions options;
    options.prefill_chunk_tokens = chunk;
    Engine engine(file, options);
    EXPECT_EQ(answers_together(engine, /*recompute=*/false), alone) << "chunk " << chunk;
    expect_all_pages_free(engine);
  }
}

TEST_P(TinyLlamaTogether, PreemptionAndRecomputingChangeNothing) {
  const auto file = build("tiny_llama.gguf", GetParam().weights, GetParam().kv);
  const std::vector<Ids> alone = answers_alone(file);
  EngineOptions options;
  options.kv_capacity_tokens = 192;  // the longest alone; hardly two together
  options.max_sequences = 8;
  Engine tight(file, options);
  EXPECT_EQ(answers_together(tight, /*recompute=*/false), alone);
  expect_all_pages_free(tight);
  Engine engine(file, {});
  EXPECT_EQ(answers_together(engine, /*recompute=*/true), alone);
  expect_all_pages_free(engine);
}

INSTANTIATE_TEST_SUITE_P(Storages, TinyLlamaTogether,
                         ::testing::Values(Storage{"bf16", WeightChoice::kBf16, DType::kBf16},
                                           Storage{"int8", WeightChoice::kInt8, DType::kI8},
                                           Storage{"int4", WeightChoice::kInt4, DType::kBf16},
                                           Storage{"f32", WeightChoice::kF32, DType::kF32}),
                         [](const auto& info) { return info.param.name; });

TEST(TinyLlama, ScoresTheSameBitsInAnyChunk) {
  const auto file = build("tiny_llama.gguf", WeightChoice::kBf16, DType::kBf16);
  const Ids prompt = eight_prompts().back();
  Ids rows;
  for (size_t i = 0; i < prompt.size(); i += 3) rows.push_back(static_cast<int32_t>(i));
  std::vector<std::vector<float>> seen;
  for (const int32_t chunk : {5, 512}) {
    EngineOptions options;
    options.prefill_chunk_tokens = chunk;
    Engine engine(file, options);
    std::vector<float>& logits = seen.emplace_back();
    engine.score(prompt, rows, [&](int32_t, std::span<const float> row) {
      logits.insert(logits.end(), row.begin(), row.end());
    });
  }
  ASSERT_EQ(seen[0].size(), rows.size() * 320);
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace kvern::engine
