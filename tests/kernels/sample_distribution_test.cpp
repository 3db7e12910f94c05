// What is drawn has the distribution that the parameters say: chi-square against probabilities
// computed here in double. Seeds are fixed, so that no run differs from another.
#include "tests/kernels/sample_rows.h"

namespace kvern::kernels {
namespace {

using testing::draw;
using testing::exact_distribution;
using testing::random_logits;
using testing::surprise;

constexpr int kDraws = 20000;
constexpr int kDrawsOfMany = 4000;
constexpr double kLikely = 3.5;  // standard deviations

struct Case {
  const char* name;
  float temperature;
  int top_k;
  float top_p;
  float min_p;
};

class Distribution : public ::testing::TestWithParam<Case> {};

TEST_P(Distribution, IsExact) {
  const Case& c = GetParam();
  for (const int64_t size : {40, 3000}) {
    const std::vector<float> logits = random_logits(size, 5);
    SampleRow row;
    row.temperature = c.temperature;
    row.top_k = c.top_k;
    row.top_p = c.top_p;
    row.min_p = c.min_p;
    row.seed = 1234;
    const auto wanted = exact_distribution(logits, c.temperature, c.top_k, c.top_p, c.min_p);
    EXPECT_LT(std::abs(surprise(draw(logits, row, size < 100 ? kDraws : kDrawsOfMany), wanted)),
              kLikely)
        << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sampling, Distribution,
    ::testing::Values(Case{"one", 1.0f, 0, 1.0f, 0.0f}, Case{"cool", 0.4f, 0, 1.0f, 0.0f},
                      Case{"hot", 5.0f, 0, 1.0f, 0.0f}, Case{"top_k", 1.0f, 7, 1.0f, 0.0f},
                      Case{"top_p", 1.0f, 0, 0.7f, 0.0f}, Case{"min_p", 1.0f, 0, 1.0f, 0.05f},
                      Case{"top_p_hot", 3.0f, 0, 0.9f, 0.0f}, Case{"all", 0.8f, 20, 0.8f, 0.02f}),
    [](const auto& info) { return info.param.name; });

TEST(Surprise, NoticesASlightlyWrongDistribution) {
  const std::vector<float> logits = random_logits(40, 5);
  SampleRow row;
  row.temperature = 1.05f;
  row.seed = 1234;
  EXPECT_GT(surprise(draw(logits, row, kDraws), exact_distribution(logits, 1.0)), kLikely);
}

TEST(Distribution, OfBiasAndPenaltiesIsExact) {
  std::vector<float> logits = random_logits(40, 6);
  const std::vector<LogitChange> changes = {
      {3, 1.5f, 1.0f, 0.0f},   // bias
      {7, 0.0f, 1.4f, 0.0f},   // in the prompt
      {8, -0.5f, 1.4f, 1.1f},  // biased, in prompt and answer
      {9, -std::numeric_limits<float>::infinity(), 1.4f, 0.0f},
      {11, 0.0f, 1.0f, -0.9f},  // negative penalties draw an id near
  };
  SampleRow row;
  row.temperature = 0.9f;
  row.seed = 99;
  row.changes = changes;
  std::vector<float> wanted = logits;
  for (const LogitChange& c : changes) {
    float& x = wanted[static_cast<size_t>(c.id)];
    x += c.bias;
    x = (x > 0 ? x / c.repetition : x * c.repetition) - c.minus;
  }
  EXPECT_LT(std::abs(surprise(draw(logits, row, kDraws), exact_distribution(wanted, 0.9f))),
            kLikely);
  EXPECT_GT(surprise(draw(logits, row, kDraws), exact_distribution(logits, 0.9f)), kLikely);
}

TEST(Distribution, SeedsAreIndependent) {
  const std::vector<float> logits(2, 0.0f);
  SampleRow row;
  row.temperature = 1.0f;
  std::vector<int32_t> pairs;
  for (row.seed = 0; row.seed < 200; ++row.seed) {
    const auto first = draw(logits, row, 20);
    ++row.seed;
    const auto second = draw(logits, row, 20);
    for (size_t i = 0; i < first.size(); ++i) pairs.push_back(first[i] * 2 + second[i]);
  }
  EXPECT_LT(std::abs(surprise(pairs, std::vector<double>(4, 0.25))), kLikely);
}

}  // namespace
}  // namespace kvern::kernels
