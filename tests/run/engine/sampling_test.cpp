// Sampling and log-probabilities through a whole engine: answers depend on the request alone.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/run/engine/fake_engine.h"
#include "tests/run/exec/tiny_plan.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

struct Told {
  Ids ids;
  std::vector<TokenLogprobs> answer;
  std::vector<TokenLogprobs> prompt;
  Event last;
};

Told take_all(Generation& generation) {
  Told out;
  for (Event event; generation.next(event);) {
    if (event.kind == EventKind::kToken) {
      out.ids.push_back(event.id);
      for (auto& told : event.logprobs) out.answer.push_back(std::move(told));
    } else if (event.kind == EventKind::kPromptLogprobs) {
      EXPECT_TRUE(out.ids.empty());
      EXPECT_EQ(event.first_position, static_cast<int64_t>(out.prompt.size()) + 1);
      for (auto& told : event.logprobs) out.prompt.push_back(std::move(told));
    }
    out.last = std::move(event);
  }
  return out;
}

void expect_same(const std::vector<TokenLogprobs>& a, const std::vector<TokenLogprobs>& b) {
  ASSERT_EQ(a.size(), b.size());
  const auto same = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same(a[i].token, b[i].token)) << i;
    EXPECT_TRUE(
        std::equal(a[i].top.begin(), a[i].top.end(), b[i].top.begin(), b[i].top.end(), same))
        << i;
  }
}

RequestSpec sampled_spec(uint64_t seed) {
  RequestSpec spec = spec_of({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, 30);
  spec.sampling.temperature = 1.5f;
  spec.sampling.top_k = 25;
  spec.sampling.top_p = 0.97f;
  spec.sampling.min_p = 0.001f;
  spec.sampling.repetition_penalty = 1.1f;
  spec.sampling.presence_penalty = 0.2f;
  spec.sampling.frequency_penalty = 0.1f;
  spec.sampling.logit_bias = {{7, 1.0f}};
  spec.sampling.seed = seed;
  spec.num_logprobs = 3;
  return spec;
}

class SampledAnswer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (file_ == nullptr) file_ = exec::TinyPlan().file();
  }
  static void TearDownTestSuite() { file_.reset(); }

  static EngineOptions options() {
    EngineOptions out;
    out.num_threads = 2;
    return out;
  }
  static Told alone(uint64_t seed) {
    Engine engine(file_, options());
    return take_all(*engine.submit(sampled_spec(seed)));
  }

  static std::shared_ptr<const plan::PlanFile> file_;
};

std::shared_ptr<const plan::PlanFile> SampledAnswer::file_;

TEST_F(SampledAnswer, IsTheSameAloneInABatchAndWarm) {
  const Told first = alone(5), second = alone(6);
  EXPECT_EQ(first.ids.size(), 30u);
  EXPECT_NE(first.ids, second.ids);
  for (size_t i = 0; i < first.ids.size(); ++i) {
    EXPECT_EQ(first.answer[i].token.id, first.ids[i]);
    EXPECT_EQ(first.answer[i].top.size(), 3u);
  }
  Engine engine(file_, options());
  for (int warm = 0; warm < 2; ++warm) {
    std::vector<std::shared_ptr<Generation>> batch;
    for (uint64_t seed = 3; seed < 11; ++seed) batch.push_back(engine.submit(sampled_spec(seed)));
    const Told got_first = take_all(*batch[2]), got_second = take_all(*batch[3]);
    EXPECT_EQ(got_first.ids, first.ids);
    EXPECT_EQ(got_second.ids, second.ids);
    expect_same(got_first.answer, first.answer);
    for (const auto& generation : batch) take_all(*generation);
  }
}

TEST_F(SampledAnswer, IsTheSameInChunksAndRecomputed) {
  const Told wanted = alone(5);
  EngineOptions chunks = options();
  chunks.prefill_chunk_tokens = 3;
  Engine engine(file_, chunks);
  const Told got = take_all(*engine.submit(sampled_spec(5)));
  EXPECT_EQ(got.ids, wanted.ids);
  expect_same(got.answer, wanted.answer);
  RequestSpec spec = sampled_spec(5);
  spec.recompute_context = true;
  EXPECT_EQ(take_all(*engine.submit(spec)).ids, wanted.ids);
}

TEST_F(SampledAnswer, IsTheSameWhenPreempted) {
  constexpr int kRequests = 4;
  const auto spec = [](int i) {
    RequestSpec out = sampled_spec(static_cast<uint64_t>(5 + i));
    out.prompt_ids[0] = i;  // no page is shared
    out.max_new_tokens = 50;
    return out;
  };
  std::vector<Told> wanted;
  for (int i = 0; i < kRequests; ++i) {
    Engine engine(file_, options());
    wanted.push_back(take_all(*engine.submit(spec(i))));
  }
  EngineOptions small = options();
  small.kv_capacity_tokens = 64;  // one has 61
  Engine engine(file_, small);
  // Until two of them have met, which the machine's load decides.
  for (int round = 0; round < 50 && engine.stats().scheduler.preemptions == 0; ++round) {
    std::vector<std::shared_ptr<Generation>> all;
    for (int i = 0; i < kRequests; ++i) all.push_back(engine.submit(spec(i)));
    for (int i = 0; i < kRequests; ++i) {
      const Told got = take_all(*all[static_cast<size_t>(i)]);
      EXPECT_EQ(got.ids, wanted[static_cast<size_t>(i)].ids);
      expect_same(got.answer, wanted[static_cast<size_t>(i)].answer);
    }
  }
  EXPECT_GT(engine.stats().scheduler.preemptions, 0);
}

TEST_F(SampledAnswer, PromptLogprobsAreThoseOfTheLogits) {
  RequestSpec spec = sampled_spec(5);
  spec.prompt_logprobs = true;
  spec.num_logprobs = 2;
  spec.prompt_ids.clear();
  for (int32_t i = 0; i < 20; ++i) spec.prompt_ids.push_back((i * 7 + 3) % 32);
  EngineOptions chunks = options();
  Engine engine(file_, chunks);
  const Told told = take_all(*engine.submit(spec));
  ASSERT_EQ(told.prompt.size(), 19u);
  EXPECT_EQ(told.ids.size(), 30u);
  Ids rows;
  for (int32_t i = 0; i < 19; ++i) rows.push_back(i);
  engine.score(spec.prompt_ids, rows, [&](int32_t position, std::span<const float> logits) {
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x));
    const TokenLogprobs& at = told.prompt[static_cast<size_t>(position)];
    const int32_t id = spec.prompt_ids[static_cast<size_t>(position) + 1];
    EXPECT_EQ(at.token.id, id);
    EXPECT_NEAR(at.token.logprob, logits[static_cast<size_t>(id)] - std::log(total), 1e-5);
    ASSERT_EQ(at.top.size(), 2u);
    EXPECT_EQ(at.top[0].id, std::max_element(logits.begin(), logits.end()) - logits.begin());
  });
  // Warm: what the prefix cache holds has no rows, so that it is computed again.
  expect_same(take_all(*engine.submit(spec)).prompt, told.prompt);
  chunks.prefill_chunk_tokens = 3;
  Engine chunked(file_, chunks);
  const Told again = take_all(*chunked.submit(spec));
  expect_same(again.prompt, told.prompt);
  EXPECT_EQ(again.ids, told.ids);
  // Without those of the answer.
  spec.num_logprobs = -1;
  const Told bare = take_all(*engine.submit(spec));
  EXPECT_EQ(bare.prompt.size(), 19u);
  EXPECT_TRUE(bare.prompt[0].top.empty());
  EXPECT_TRUE(bare.answer.empty());
}

TEST_F(SampledAnswer, AnImpossibleBiasFailsItsRequestAlone) {
  Engine engine(file_, options());
  RequestSpec impossible = sampled_spec(5);
  impossible.sampling.logit_bias.clear();
  for (int32_t id = 0; id < exec::kTinyVocabulary; ++id) {
    impossible.sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
  }
  const auto bad = engine.submit(impossible);
  const auto good = engine.submit(sampled_spec(5));
  const Told failed = take_all(*bad);
  EXPECT_EQ(failed.last.kind, EventKind::kFailed);
  EXPECT_EQ(failed.last.code, Code::kInvalidRequest);
  EXPECT_NE(failed.last.message.find("logit_bias"), std::string::npos) << failed.last.message;
  EXPECT_EQ(take_all(*good).ids, alone(5).ids);
  EXPECT_TRUE(engine.stats().healthy);
}

TEST(SamplingRanges, AreRefusedByName) {
  FakeEngine fake = make_fake_engine();
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refuses = [&](const char* name, const std::function<void(RequestSpec&)>& change) {
    RequestSpec spec = spec_of({1}, 1);
    change(spec);
    try {
      fake.engine->submit(std::move(spec));
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidRequest) << name;
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  const auto each = [&](const char* name, float step::SamplingParams::*field,
                        std::initializer_list<float> values) {
    for (const float v : values) refuses(name, [&](RequestSpec& s) { s.sampling.*field = v; });
  };
  using Params = step::SamplingParams;
  each("temperature", &Params::temperature, {-0.1f, 100.5f, nan, infinity});
  each("top_p", &Params::top_p, {0.0f, -1.0f, 1.01f, nan});
  each("min_p", &Params::min_p, {-0.1f, 1.1f, nan});
  each("repetition_penalty", &Params::repetition_penalty, {0.0f, -1.0f, nan, infinity});
  each("presence_penalty", &Params::presence_penalty, {-2.1f, 2.1f, nan});
  each("frequency_penalty", &Params::frequency_penalty, {-2.1f, 2.1f, nan});
  refuses("top_k", [](RequestSpec& s) { s.sampling.top_k = -1; });
  const auto bias = [&](std::vector<LogitBias> biases) {
    refuses("logit_bias", [&](RequestSpec& s) { s.sampling.logit_bias = biases; });
  };
  bias({{-1, 0.0f}});
  bias({{kFakeVocabulary, 0.0f}});
  bias({{1, nan}});
  bias({{1, infinity}});
  bias({{1, -2000.0f}});
  bias({{1, 0.0f}, {2, 0.0f}, {1, 1.0f}});
  bias(std::vector<LogitBias>(1025, LogitBias{1, 0.0f}));
  refuses("num_logprobs", [](RequestSpec& s) { s.num_logprobs = 21; });
  refuses("num_logprobs", [](RequestSpec& s) { s.num_logprobs = -2; });
  refuses("stop id", [](RequestSpec& s) { s.stop_ids = {kFakeVocabulary}; });
  refuses("stop ids", [](RequestSpec& s) { s.stop_ids.assign(65, 1); });
}

TEST(SamplingRanges, TheirEndsArePossible) {
  FakeEngine fake = make_fake_engine();
  RequestSpec spec = spec_of({1}, 2);
  spec.sampling = {100.0f,    1.0f, INT32_MAX, 1.0f,
                   100.0f,    2.0f, -2.0f,     {{0, -std::numeric_limits<float>::infinity()}},
                   UINT64_MAX};
  spec.num_logprobs = 20;
  spec.prompt_logprobs = true;
  EXPECT_EQ(drain(*fake.engine->submit(spec)).kind, EventKind::kFinished);
}

}  // namespace
}  // namespace kvern::engine
