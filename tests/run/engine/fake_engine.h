// An Engine on the fake executor.
#pragma once

#include <memory>
#include <vector>

#include "run/engine/engine.h"
#include "tests/run/fake_executor.h"

namespace kvern::engine {

inline constexpr int32_t kFakeVocabulary = 50;

inline int32_t fake_next(const std::vector<int32_t>& context) {
  int32_t sum = static_cast<int32_t>(context.size());
  for (const int32_t id : context) sum = (sum * 3 + id) % kFakeVocabulary;
  return sum;
}

// The answer that any scheduling must give.
inline std::vector<int32_t> fake_answer(std::vector<int32_t> context, int tokens) {
  std::vector<int32_t> out;
  for (int i = 0; i < tokens; ++i) {
    out.push_back(fake_next(context));
    context.push_back(out.back());
  }
  return out;
}

struct FakeEngine {
  testing::FakeExecutor* executor;  // owned by the engine; set on_run before the first submit
  std::unique_ptr<Engine> engine;
};

inline FakeEngine make_fake_engine(int32_t num_pages = 64,
                                   std::shared_ptr<const text::Tokenizer> tokenizer = nullptr,
                                   std::vector<kv::GroupConfig> groups = {},
                                   int32_t max_waiting = kDefaultMaxWaiting) {
  EngineParts parts;
  parts.max_waiting = max_waiting;
  parts.kv_groups = std::move(groups);
  if (parts.kv_groups.empty()) parts.kv_groups = {{num_pages, 4, 0}, {num_pages, 16, 0}};
  auto executor =
      std::make_unique<testing::FakeExecutor>(parts.kv_groups, fake_next, kFakeVocabulary);
  testing::FakeExecutor* raw = executor.get();
  parts.executor = std::move(executor);
  parts.scheduler = {32, 8, 8, 8};
  parts.tokenizer = std::move(tokenizer);
  parts.vocabulary_size = kFakeVocabulary;
  parts.max_context_length = 1 << 20;
  return {raw, std::make_unique<Engine>(std::move(parts))};
}

inline RequestSpec spec_of(std::vector<int32_t> prompt, int32_t max_new_tokens) {
  RequestSpec spec;
  spec.prompt_ids = std::move(prompt);
  spec.max_new_tokens = max_new_tokens;
  return spec;
}

// Takes every event; the last one.
inline Event drain(Generation& generation) {
  Event event;
  while (generation.next(event)) {
  }
  return event;
}

inline void expect_all_pages_free(const Engine& engine) {
  for (const kv::PoolCounts& counts : engine.stats().pages) {
    EXPECT_EQ(counts.leased, 0);
    EXPECT_EQ(counts.free + counts.cached, counts.total);
  }
}

}  // namespace kvern::engine
