// Sampling, several answers and log-probabilities as an embedding program asks for them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "kvern/build.h"
#include "kvern/engine.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;

class ApiSampling : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = fs::temp_directory_path() / ("kvern_sampling_" + std::to_string(::getpid()));
    Builder().build(KVERN_TEST_DATA "/golden/tiny_llama.gguf", plan_.string());
    EngineOptions options;
    options.num_threads = 2;
    engine_ = std::make_unique<Engine>(Engine::load(plan_.string(), options));
  }
  static void TearDownTestSuite() {
    engine_.reset();
    fs::remove(plan_);
  }
  static Request request(double temperature) {
    Request r;
    r.prompt_ids = {5, 6, 7, 8, 9};
    r.max_new_tokens = 20;
    r.ignore_eos = true;
    r.sampling.temperature = temperature;
    return r;
  }
  static std::vector<int32_t> answer(ExecutionContext context) {
    for (Event event; context.next(event);) {
    }
    return context.ids();
  }

  static fs::path plan_;
  static std::unique_ptr<Engine> engine_;
};

fs::path ApiSampling::plan_;
std::unique_ptr<Engine> ApiSampling::engine_;

TEST_F(ApiSampling, ASeedGivesItsAnswerAndNoSeedAnother) {
  Request seeded = request(2.0);
  seeded.sampling.seed = 11;
  const auto first = answer(engine_->submit(seeded));
  EXPECT_EQ(answer(engine_->submit(seeded)), first);
  seeded.sampling.seed = 12;
  EXPECT_NE(answer(engine_->submit(seeded)), first);
  EXPECT_NE(answer(engine_->submit(request(2.0))), answer(engine_->submit(request(2.0))));
}

TEST_F(ApiSampling, SeveralAnswersHaveTheSeedsThatFollow) {
  Request r = request(2.0);
  r.sampling.seed = UINT64_MAX - 1;  // seeds wrap
  std::vector<ExecutionContext> contexts = engine_->submit(r, 4);
  ASSERT_EQ(contexts.size(), 4u);
  for (ExecutionContext& context : contexts) {
    EXPECT_EQ(answer(std::move(context)), answer(engine_->submit(r)));
    ++*r.sampling.seed;
  }
  for (const int32_t count : {0, -1, 100000}) EXPECT_THROW(engine_->submit(r, count), Error);
  r.sampling.top_p = 0.0;
  EXPECT_THROW(engine_->submit(r, 2), Error);
}

TEST_F(ApiSampling, TokensAndPromptsBringLogprobs) {
  Request r = request(0.0);
  r.num_logprobs = 5;
  r.prompt_logprobs = true;
  ExecutionContext context = engine_->submit(r);
  size_t told = 0, tokens = 0;
  for (Event event; context.next(event);) {
    if (event.kind == Event::Kind::kPromptLogprobs) {
      EXPECT_EQ(event.first_position, static_cast<int64_t>(told) + 1);
      for (const TokenLogprobs& at : event.prompt_logprobs) {
        EXPECT_EQ(at.token.id, r.prompt_ids[++told]);
        EXPECT_EQ(at.top.size(), 5u);
        EXPECT_LE(at.token.logprob, at.top[0].logprob);
      }
    } else if (event.kind == Event::Kind::kToken) {
      ++tokens;
      ASSERT_EQ(event.logprobs.top.size(), 5u);
      EXPECT_EQ(event.logprobs.token.id, event.id);
      EXPECT_EQ(event.logprobs.top[0].id, event.id);  // greedy
      EXPECT_EQ(event.logprobs.top[0].logprob, event.logprobs.token.logprob);
      EXPECT_LE(event.logprobs.token.logprob, 0.0f);
    }
  }
  EXPECT_EQ(told, 4u);
  EXPECT_EQ(tokens, 20u);
}

TEST_F(ApiSampling, TextThatIsHeldBackKeepsItsTokensLogprobs) {
  const auto text_of = [](ExecutionContext& context, std::vector<int32_t>& ids) {
    std::string text;
    for (Event event; context.next(event);) {
      text += event.text;
      if (event.kind != Event::Kind::kToken) continue;
      EXPECT_EQ(event.logprobs.token.id, event.id);
      ids.push_back(event.id);
    }
    return text;
  };
  Request r = request(0.0);
  r.num_logprobs = 0;
  std::vector<int32_t> all_ids, ids;
  ExecutionContext whole = engine_->submit(r);
  const std::string text = text_of(whole, all_ids);
  ASSERT_GT(text.size(), 8u);
  r.stop_strings = {text.substr(text.size() / 2, 4)};
  ExecutionContext stopped = engine_->submit(r);
  EXPECT_EQ(text_of(stopped, ids), text.substr(0, text.find(r.stop_strings[0])));
  ASSERT_LE(ids.size(), all_ids.size());
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all_ids.begin()));
  EXPECT_EQ(stopped.ids(), ids);
}

TEST_F(ApiSampling, BiasForbidsAndForces) {
  Request r = request(1.0);
  r.sampling.seed = 3;
  r.sampling.logit_bias = {{42, 500.0f}};
  EXPECT_EQ(answer(engine_->submit(r)), std::vector<int32_t>(20, 42));
  const auto greedy = answer(engine_->submit(request(0.0)));
  Request without = request(0.0);
  without.sampling.logit_bias = {{greedy[0], -std::numeric_limits<float>::infinity()}};
  const auto other = answer(engine_->submit(without));
  EXPECT_EQ(std::count(other.begin(), other.end(), greedy[0]), 0);
}

}  // namespace
}  // namespace kvern
