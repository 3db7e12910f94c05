// The fast kernels on the real model: how far from the oracle, and the same ids however they are
// run.
#include <random>

#include "measure/divergence.h"
#include "tests/measure/smollm2.h"

namespace kvern::measure {
namespace {

using quantize::WeightChoice;

engine::EngineOptions options_with(int32_t chunk, int32_t sequences = 8) {
  engine::EngineOptions options;
  options.kv_capacity_tokens = 8192;
  options.max_sequences = sequences;
  options.prefill_chunk_tokens = chunk;
  return options;
}

std::vector<std::vector<int32_t>> eight_prompts() {
  std::vector<std::vector<int32_t>> prompts;
  std::mt19937 random(11);
  for (const size_t length : {1, 3, 16, 17, 40, 130, 300, 600}) {
    std::vector<int32_t> ids(length);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 49152);
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

std::shared_ptr<engine::Generation> submit(engine::Engine& engine,
                                           const std::vector<int32_t>& ids) {
  engine::RequestSpec spec;
  spec.prompt_ids = ids;
  spec.max_new_tokens = 24;
  spec.ignore_eos = true;
  return engine.submit(spec);
}

std::vector<int32_t> take(engine::Generation& generation) {
  engine::Event event;
  while (generation.next(event)) EXPECT_NE(event.kind, engine::EventKind::kFailed) << event.message;
  return generation.ids();
}

void expect_same_ids_together(DType kv, Activations activations = Activations::kDefault) {
  const auto plan = smollm2_plan(WeightChoice::kKeep, kv, activations);
  const auto prompts = eight_prompts();
  std::vector<std::vector<int32_t>> alone;
  {
    engine::Engine engine(plan, options_with(512));
    for (const auto& prompt : prompts) alone.push_back(take(*submit(engine, prompt)));
  }
  for (const int32_t chunk : {7, 64, 512}) {
    engine::Engine engine(plan, options_with(chunk));
    std::vector<std::shared_ptr<engine::Generation>> generations;
    for (const auto& prompt : prompts) generations.push_back(submit(engine, prompt));
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(take(*generations[i]), alone[i]) << "chunk " << chunk << ", sequence " << i;
    }
    engine.wait_idle();
    for (const kv::PoolCounts& pages : engine.stats().pages) EXPECT_EQ(pages.leased, 0);
  }
}

using E2eSmolLm2Fast = SmolLm2Test;
using SlowSmolLm2Fast = SmolLm2Test;

TEST_F(E2eSmolLm2Fast, EightTogetherAndInChunksGiveTheIdsOfEachAlone) {
  expect_same_ids_together(DType::kBf16);
}

TEST_F(E2eSmolLm2Fast, EightTogetherAndInChunksGiveTheIdsOfEachAloneWithInt8Kv) {
  expect_same_ids_together(DType::kI8);
}

TEST_F(E2eSmolLm2Fast, EightTogetherAndInChunksGiveTheIdsOfEachAloneWithFp8Kv) {
  expect_same_ids_together(DType::kF8E4M3);
}

TEST_F(E2eSmolLm2Fast, EightTogetherAndInChunksGiveTheIdsOfEachAloneWithInt8Activations) {
  expect_same_ids_together(DType::kBf16, Activations::kInt8);
}

// Against the plain f32 run that smollm2_reference_test.cpp holds to transformers.
TEST_F(SlowSmolLm2Fast, DivergenceFromTheOracleIsSmall) {
  const auto ids = golden("smollm2_ppl.json").at("ids").get<std::vector<int32_t>>();
  engine::EngineOptions plain = options_with(512);
  plain.plain_kernels = true;
  plain.num_threads = 1;
  engine::Engine reference(smollm2_plan(WeightChoice::kF32, DType::kF32), plain);
  struct Case {
    const char* name;
    DType kv;
    double max_kl;
    double min_top1;
    WeightChoice weights = WeightChoice::kKeep;
    Activations activations = Activations::kDefault;
  };
  const auto int8 = Activations::kInt8;
  std::printf(
      "| plan | weights MB | KV bytes/token | mean KL | max KL | top-1 | perplexity |\n"
      "|---|--:|--:|--:|--:|--:|--:|\n");
  // bf16 KV is the bound that Kvern promises; int8 and fp8 are held to theirs.
  for (const Case& c :
       {Case{"keep, bf16 KV", DType::kBf16, 3e-4, 0.985},
        Case{"keep, int8 KV", DType::kI8, 1e-3, 0.97},
        Case{"keep, fp8 KV", DType::kF8E4M3, 1e-2, 0.93},
        Case{"int8 weights", DType::kBf16, 2e-3, 0.96, WeightChoice::kInt8},
        Case{"keep, int8 activations", DType::kBf16, 6e-3, 0.94, WeightChoice::kKeep, int8},
        Case{"int8 weights and activations", DType::kBf16, 6e-3, 0.94, WeightChoice::kInt8,
             int8}}) {
    engine::EngineOptions fast = options_with(512);
    fast.num_threads = 1;
    const auto plan = smollm2_plan(c.weights, c.kv, c.activations);
    engine::Engine candidate(plan, fast);
    const Divergence d = divergence(reference, candidate, ids);
    std::printf("| %s | %.1f | %lld | %.2e | %.2e | %.2f %% | %.3f (f32: %.3f) |\n", c.name,
                static_cast<double>(plan->weights().size()) / 1e6,
                static_cast<long long>(plan->plan().kv_layout.bytes_per_token()), d.mean_kl,
                d.max_kl, 100 * d.top1_agreement, d.candidate_perplexity, d.reference_perplexity);
    EXPECT_EQ(d.positions, 1999);
    EXPECT_LE(d.mean_kl, c.max_kl) << c.name;
    EXPECT_GE(d.top1_agreement, c.min_top1) << c.name;
  }
}

}  // namespace
}  // namespace kvern::measure
