// What the sampler knows of sequences, and that nothing around a sequence changes its ids.
#include "run/exec/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/cpu/cpu_device.h"

namespace kvern::exec {
namespace {

using step::LogitsWanted;
using step::Purpose;

constexpr int64_t kVocabulary = 60;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Logits that depend on the position alone.
std::vector<float> logits_at(int32_t position) {
  std::mt19937 random(static_cast<uint32_t>(position));
  std::normal_distribution<float> normal(0.0f, 1.5f);
  std::vector<float> out(static_cast<size_t>(kVocabulary));
  for (float& x : out) x = normal(random);
  return out;
}

class SamplerTest : public ::testing::Test {
 protected:
  // A part whose last row, that of position start + count - 1, is sampled.
  static step::SequenceInput part(int64_t seq, int32_t start, int32_t count) {
    step::SequenceInput out;
    out.seq = kv::SeqId(seq);
    out.start = start;
    out.count = count;
    out.logits = LogitsWanted::kLast;
    return out;
  }

  std::vector<step::SequenceResult> run(Sampler& sampler, const step::StepBatch& batch) {
    std::vector<std::vector<float>> rows;
    for (const step::SequenceInput& p : batch.sequences) {
      if (p.logits == LogitsWanted::kLast) rows.push_back(logits_at(p.start + p.count - 1));
      for (const int32_t row : p.logits_rows) rows.push_back(logits_at(p.start + row));
    }
    return run(sampler, batch, rows);
  }

  std::vector<step::SequenceResult> run(Sampler& sampler, const step::StepBatch& batch,
                                        const std::vector<std::vector<float>>& rows) {
    constexpr int64_t kStride = kVocabulary + 4;
    std::vector<float> logits(rows.size() * kStride, kInfinity);  // the gaps would win
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy(rows[r].begin(), rows[r].end(),
                logits.begin() + static_cast<ptrdiff_t>(r) * kStride);
    }
    step::StepResult result;
    for (const step::SequenceInput& p : batch.sequences)
      result.sequences.emplace_back().seq = p.seq;
    sampler.update(batch);
    sampler.run(batch,
                {reinterpret_cast<std::byte*>(logits.data()), static_cast<int64_t>(rows.size()),
                 kStride * 4},
                *stream_, result);
    return result.sequences;
  }

  // Ids of positions start … start + num - 1.
  std::vector<int32_t> answer(Sampler& sampler, int64_t seq, int32_t start, int num) {
    std::vector<int32_t> ids;
    for (int i = 0; i < num; ++i) {
      step::StepBatch batch;
      batch.sequences = {part(seq, start + i - 1, 1)};
      ids.push_back(run(sampler, batch)[0].sampled.value());
    }
    return ids;
  }

  std::shared_ptr<device::Device> device_ = device::create_cpu_device(2);
  std::unique_ptr<device::Stream> stream_ = device_->create_stream();
};

step::SamplingParams every_param() {
  step::SamplingParams out;
  out.temperature = 0.9f;
  out.top_p = 0.95f;
  out.top_k = 30;
  out.repetition_penalty = 1.2f;
  out.presence_penalty = 0.4f;
  out.frequency_penalty = 0.3f;
  out.logit_bias = {{4, 2.0f}, {5, -kInfinity}};
  out.seed = 77;
  return out;
}

TEST_F(SamplerTest, TheBatchAndChunksChangeNothing) {
  Sampler alone(kVocabulary), busy(kVocabulary);
  step::StepBatch open;
  open.opened = {{kv::SeqId(1), every_param(), {1, 2, 3}, {}}};
  alone.update(open);
  const std::vector<int32_t> wanted = answer(alone, 1, 10, 30);
  step::SamplingParams other = every_param();
  other.seed = 78;
  open.opened.push_back({kv::SeqId(2), other, {1, 2, 3}, {}});
  open.opened.push_back({kv::SeqId(3), {}, {}, {}});
  busy.update(open);
  std::vector<int32_t> got, others;
  for (int32_t i = 0; i < 30; ++i) {
    step::StepBatch batch;
    step::SequenceInput silent = part(9, 0, 3);
    silent.logits = LogitsWanted::kNone;
    step::SequenceInput exported = part(8, 5, 1);
    exported.purpose = Purpose::kExport;
    // The first token at the end of a chunk of 10, the others alone.
    const int32_t count = i == 0 ? 10 : 1;
    batch.sequences = {part(3, 9 + i, 1), silent, exported, part(2, 9 + i, 1),
                       part(1, 10 + i - count, count)};
    const auto results = run(busy, batch);
    EXPECT_FALSE(results[1].sampled || results[2].sampled);
    got.push_back(results[4].sampled.value());
    others.push_back(results[3].sampled.value());
  }
  EXPECT_EQ(got, wanted);
  EXPECT_NE(others, wanted);
  EXPECT_EQ(busy.last_samples().at(kv::SeqId(1)), wanted.back());
}

TEST_F(SamplerTest, AReopenedSequenceGoesOnAsIfNothingHadHappened) {
  Sampler whole(kVocabulary), first(kVocabulary), second(kVocabulary);
  step::StepBatch open;
  open.opened = {{kv::SeqId(1), every_param(), {1, 2, 3}, {}}};
  whole.update(open);
  const std::vector<int32_t> wanted = answer(whole, 1, 10, 24);
  first.update(open);
  std::vector<int32_t> got = answer(first, 1, 10, 9);
  open.opened[0].answer_ids = got;
  second.update(open);
  const std::vector<int32_t> rest = answer(second, 1, 19, 15);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, wanted);
  open.opened[0].answer_ids.clear();  // without its penalties it would not
  second.update(open);
  EXPECT_NE(answer(second, 1, 19, 15), rest);
}

// Greedy, so that what is taken is what the formula says.
TEST_F(SamplerTest, PenaltiesCountPromptAndAnswer) {
  step::SamplingParams params;
  params.repetition_penalty = 2.0f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  Sampler sampler(kVocabulary);
  step::StepBatch batch;
  batch.opened = {{kv::SeqId(1), params, {7}, {8, 8}}};
  batch.sequences = {part(1, 5, 1)};
  const auto taken = [&](float prompt, float answer, float other) {
    std::vector<float> row(static_cast<size_t>(kVocabulary), -9.0f);
    row[7] = prompt;  // / 2
    row[8] = answer;  // / 2 - 0.5 - 2 * 0.25
    row[9] = other;
    const int32_t id = run(sampler, batch, {row})[0].sampled.value();
    return id;
  };
  EXPECT_EQ(taken(2.1f, 0.0f, 1.0f), 7);
  EXPECT_EQ(taken(1.9f, 0.0f, 1.0f), 9);
  EXPECT_EQ(taken(0.0f, 3.9f, 1.0f), 9);
  EXPECT_EQ(taken(-2.0f, -2.0f, -4.1f), 7);  // a negative logit is multiplied
  EXPECT_EQ(taken(-2.1f, -2.0f, -4.1f), 9);
  EXPECT_EQ(taken(0.0f, 4.1f, 1.0f), 8);
  // The samples themselves count: 8 now stands three times in the answer.
  batch.opened.clear();
  EXPECT_EQ(taken(-9.0f, 4.0f, 0.8f), 9);
}

TEST_F(SamplerTest, TargetsAndTheSampleOfOnePart) {
  Sampler sampler(kVocabulary);
  step::StepBatch batch;
  step::SequenceInput p = part(1, 3, 4);
  p.logits = LogitsWanted::kList;
  p.logits_rows = {1, 2, 3};
  p.purpose = Purpose::kLogprobs;
  p.targets = {10, 11, step::kToBeSampled};
  p.num_logprobs = 2;
  batch.sequences = {p, part(2, 6, 1)};
  auto results = run(sampler, batch);
  ASSERT_EQ(results[0].logprobs.size(), 3u);
  EXPECT_EQ(results[0].sampled, results[1].sampled);  // the same logits, both greedy
  EXPECT_TRUE(results[1].logprobs.empty());
  for (size_t i = 0; i < 3; ++i) {
    const TokenLogprobs& told = results[0].logprobs[i];
    const std::vector<float> row = logits_at(4 + static_cast<int32_t>(i));
    double total = 0;
    for (const float x : row) total += std::exp(static_cast<double>(x));
    EXPECT_EQ(told.token.id, i < 2 ? p.targets[i] : results[0].sampled.value());
    EXPECT_NEAR(told.token.logprob, row[static_cast<size_t>(told.token.id)] - std::log(total),
                1e-5);
    ASSERT_EQ(told.top.size(), 2u);
    EXPECT_GE(told.top[0].logprob, told.top[1].logprob);
  }
  batch.sequences[0].num_logprobs = -1;  // the prompt's own all the same
  results = run(sampler, batch);
  EXPECT_EQ(results[0].logprobs.size(), 2u);
  EXPECT_TRUE(results[0].logprobs[0].top.empty());
}

TEST_F(SamplerTest, ARowWithoutNumbersFailsItsSequenceAlone) {
  const std::vector<float> bad(static_cast<size_t>(kVocabulary), std::nanf(""));
  for (const float temperature : {0.0f, 1.0f}) {
    Sampler sampler(kVocabulary);
    step::SamplingParams params;
    params.temperature = temperature;
    step::StepBatch batch;
    batch.opened = {{kv::SeqId(1), params, {}, {}}, {kv::SeqId(2), params, {}, {}}};
    batch.sequences = {part(1, 5, 1), part(2, 5, 1)};
    const auto results = run(sampler, batch, {bad, logits_at(5)});
    EXPECT_NE(results[0].failure.find("not finite"), std::string::npos) << results[0].failure;
    EXPECT_EQ(results[0].failure_code, Code::kInternal);
    EXPECT_FALSE(results[0].sampled.has_value());
    EXPECT_TRUE(results[1].failure.empty());
    EXPECT_TRUE(results[1].sampled.has_value());
  }
}

TEST_F(SamplerTest, ABiasThatForbidsEverythingIsTheCallersFault) {
  Sampler sampler(kVocabulary);
  step::SamplingParams params;
  for (int32_t id = 0; id < kVocabulary; ++id) params.logit_bias.push_back({id, -kInfinity});
  step::StepBatch batch;
  batch.opened = {{kv::SeqId(1), params, {}, {}}};
  batch.sequences = {part(1, 5, 1)};
  auto results = run(sampler, batch);
  EXPECT_NE(results[0].failure.find("logit_bias"), std::string::npos) << results[0].failure;
  EXPECT_EQ(results[0].failure_code, Code::kInvalidRequest);
  params.logit_bias.pop_back();
  batch.opened[0].sampling = params;
  results = run(sampler, batch);
  EXPECT_EQ(results[0].sampled, kVocabulary - 1);
}

TEST_F(SamplerTest, IdsOutsideTheVocabularyAreOurBug) {
  Sampler sampler(kVocabulary);
  step::SamplingParams params;
  params.logit_bias = {{static_cast<int32_t>(kVocabulary), 1.0f}};
  step::StepBatch batch;
  batch.opened = {{kv::SeqId(1), params, {}, {}}};
  EXPECT_THROW(sampler.update(batch), InternalError);
}

}  // namespace
}  // namespace kvern::exec
