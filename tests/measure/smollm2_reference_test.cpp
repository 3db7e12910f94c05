// The plain implementations with f32 weights and f32 KV against transformers' fp32 run of the same
// file.
#include <cmath>

#include "tests/measure/smollm2.h"

namespace kvern::measure {
namespace {

engine::EngineOptions plain_options() {
  engine::EngineOptions options;
  options.plain_kernels = true;
  options.kv_capacity_tokens = 2560;
  options.max_sequences = 8;
  return options;
}

std::vector<int32_t> answer(engine::Engine& engine, const std::vector<int32_t>& prompt,
                            int32_t count) {
  engine::RequestSpec spec;
  spec.prompt_ids = prompt;
  spec.max_new_tokens = count;
  spec.ignore_eos = true;
  const auto generation = engine.submit(spec);
  engine::Event event;
  while (generation->next(event)) {
    EXPECT_NE(event.kind, engine::EventKind::kFailed) << event.message;
  }
  return generation->ids();
}

void expect_greedy_ids(size_t num_prompts, size_t num_tokens) {
  engine::Engine engine(smollm2_plan(quantize::WeightChoice::kF32, DType::kF32), plain_options());
  const Json file = golden("smollm2_greedy.json");
  ASSERT_GE(file.at("prompts").size(), num_prompts);
  for (size_t i = 0; i < num_prompts; ++i) {
    const Json& prompt = file.at("prompts")[i];
    ASSERT_GE(prompt.at("min_margin").get<double>(), 1e-3);
    auto wanted = prompt.at("ids").get<std::vector<int32_t>>();
    wanted.resize(num_tokens);
    EXPECT_EQ(answer(engine, prompt.at("prompt_ids").get<std::vector<int32_t>>(),
                     static_cast<int32_t>(num_tokens)),
              wanted)
        << prompt.at("text");
  }
}

using SmolLm2Reference = SmolLm2Test;
using SlowSmolLm2Reference = SmolLm2Test;

TEST_F(SmolLm2Reference, GreedyIdsOfTwoPromptsEqualTransformers) {
  expect_greedy_ids(2, 16);
}

TEST_F(SlowSmolLm2Reference, GreedyIdsOfTwelvePromptsEqualTransformers) {
  expect_greedy_ids(12, 48);
}

// Logits at 64 vocabulary entries for each of 48 steps of every prompt.
TEST_F(SlowSmolLm2Reference, LogitsAreWithinTwoThousandthsOfTransformers) {
  engine::Engine engine(smollm2_plan(quantize::WeightChoice::kF32, DType::kF32), plain_options());
  const Json file = golden("smollm2_greedy.json");
  const auto probes = file.at("probe_ids").get<std::vector<size_t>>();
  double worst = 0;
  for (const Json& prompt : file.at("prompts")) {
    auto ids = prompt.at("prompt_ids").get<std::vector<int32_t>>();
    const auto first = static_cast<int32_t>(ids.size()) - 1;
    const auto answer_ids = prompt.at("ids").get<std::vector<int32_t>>();
    ids.insert(ids.end(), answer_ids.begin(), answer_ids.end() - 1);
    std::vector<int32_t> rows;
    for (size_t i = 0; i < answer_ids.size(); ++i) rows.push_back(first + static_cast<int32_t>(i));
    const Json& wanted = prompt.at("logits_probe");
    engine.score(ids, rows, [&](int32_t position, std::span<const float> logits) {
      const Json& row = wanted[static_cast<size_t>(position - first)];
      for (size_t i = 0; i < probes.size(); ++i) {
        worst = std::max(worst, std::fabs(logits[probes[i]] - row[i].get<double>()));
      }
    });
  }
  RecordProperty("worst_logit_error", std::to_string(worst));
  std::printf("largest logit difference from transformers fp32: %.2e\n", worst);
  EXPECT_LE(worst, 2e-3);
}

// The same on 2,000 tokens of context: choices where the reference's own margin says anything.
TEST_F(SlowSmolLm2Reference, LongContextAgreesWithTransformers) {
  engine::Engine engine(smollm2_plan(quantize::WeightChoice::kF32, DType::kF32), plain_options());
  const Json file = golden("smollm2_ppl.json");
  const auto ids = file.at("ids").get<std::vector<int32_t>>();
  const auto argmax = file.at("argmax").get<std::vector<int32_t>>();
  const auto margin = file.at("margin").get<std::vector<double>>();
  const auto log_prob = file.at("log_prob_next").get<std::vector<double>>();
  std::vector<int32_t> rows;
  for (size_t i = 0; i + 1 < ids.size(); ++i) rows.push_back(static_cast<int32_t>(i));
  double worst = 0;
  engine.score(ids, rows, [&](int32_t position, std::span<const float> logits) {
    const auto at = static_cast<size_t>(position);
    const auto top = std::max_element(logits.begin(), logits.end());
    if (margin[at] > 4e-3) EXPECT_EQ(top - logits.begin(), argmax[at]) << "position " << at;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *top));
    const double found = logits[static_cast<size_t>(ids[at + 1])] - *top - std::log(sum);
    worst = std::max(worst, std::fabs(found - log_prob[at]));
  });
  std::printf("largest log-probability difference over %zu tokens: %.2e\n", rows.size(), worst);
  EXPECT_LE(worst, 2e-3);
}

}  // namespace
}  // namespace kvern::measure
