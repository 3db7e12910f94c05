// Cuts, edge cases and log-probabilities of single rows; equality of instruction sets and threads.
#include <set>

#include "kernels/cpu/sample/cut.h"
#include "tests/kernels/sample_rows.h"

namespace kvern::kernels {
namespace {

using testing::draw;
using testing::exact_distribution;
using testing::random_logits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(RowOps, AreBitEqualOnEveryInstructionSet) {
  const cpu::RowOps& plain = *cpu::row_ops_named("plain");
  for (const char* name : {"avx512", "avx2"}) {
    const cpu::RowOps* ops = cpu::row_ops_named(name);
    if (ops == nullptr) continue;
    for (const int64_t size : {1, 15, 16, 17, 1023, 1024, 1025, 5003}) {
      std::vector<float> logits = random_logits(size, 3, 6.0f);
      if (size > 16) logits[7] = kNan, logits[9] = -kInfinity;
      const auto spans = static_cast<size_t>((size + 1023) / 1024);
      std::vector<float> maxima[2], weights[2];
      std::vector<double> masses[2];
      double total[2];
      for (int i = 0; i < 2; ++i) {
        const cpu::RowOps& o = i == 0 ? plain : *ops;
        maxima[i].resize(spans * 16);
        weights[i].resize(logits.size());
        masses[i].resize(spans);
        const float max = o.maxima(logits.data(), size, maxima[i].data());
        o.weights(logits.data(), size, max, 0.7f, weights[i].data());
        total[i] = o.masses(logits.data(), size, max, 0.7f, masses[i].data());
      }
      EXPECT_EQ(maxima[0], maxima[1]) << name << size;
      EXPECT_EQ(weights[0], weights[1]) << name << size;
      EXPECT_EQ(masses[0], masses[1]) << name << size;
      EXPECT_EQ(total[0], total[1]) << name << size;
      EXPECT_EQ(total[0], std::accumulate(weights[0].begin(), weights[0].end(), 0.0)) << size;
    }
  }
}

TEST(RowOps, WeightsAreExponentials) {
  std::vector<float> x;
  for (float v = 0.0f; v > -40.0f; v -= 0.0137f) x.push_back(v + 3.0f);
  std::vector<float> weights(x.size());
  cpu::row_ops().weights(x.data(), static_cast<int64_t>(x.size()), 3.0f, 0.8f, weights.data());
  EXPECT_EQ(weights[0], 1.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const double y = static_cast<double>((x[i] - 3.0f) * 0.8f);
    EXPECT_NEAR(weights[i], std::exp(y), std::exp(y) * 3e-7 + cpu::kWeightUnit) << y;
  }
  EXPECT_EQ(weights.back(), 0.0f);
}

std::vector<int32_t> kept(const std::vector<float>& logits, float temperature,
                          const cpu::Cuts& cuts) {
  cpu::RowScratch scratch;
  const auto size = static_cast<int64_t>(logits.size());
  cpu::Row row = cpu::scan(logits.data(), size, cpu::row_ops(), scratch);
  row.scale = 1.0f / temperature;
  std::vector<int32_t> out;
  if (cpu::cut(row, cuts, cpu::row_ops(), scratch) == cpu::Kept::kAll) {
    out.resize(logits.size());
    std::iota(out.begin(), out.end(), 0);
  }
  for (const cpu::Candidate& c : scratch.kept) out.push_back(c.id);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Cut, KeepsWhatAFullSortKeeps) {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    const auto size = static_cast<int64_t>(1 + random() % 4000);
    std::vector<float> logits = random_logits(size, random(), 3.0f);
    if (round % 3 == 0) {  // many equal ones
      for (float& x : logits) x = std::round(x);
    }
    const float temperature = std::vector<float>{0.3f, 1.0f, 4.0f}[random() % 3];
    cpu::Cuts cuts;
    if (random() % 2 == 0) cuts.top_k = static_cast<int32_t>(1 + random() % 200);
    if (random() % 2 == 0) cuts.top_p = 0.001f * static_cast<float>(1 + random() % 999);
    if (random() % 3 == 0) cuts.min_p = 0.0013f * static_cast<float>(1 + random() % 500);
    const std::vector<double> wanted =
        exact_distribution(logits, temperature, cuts.top_k, cuts.top_p, cuts.min_p);
    std::vector<int32_t> ids;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] > 0.0) ids.push_back(static_cast<int32_t>(i));
    }
    EXPECT_EQ(kept(logits, temperature, cuts), ids)
        << size << " k " << cuts.top_k << " p " << cuts.top_p << " m " << cuts.min_p;
  }
}

TEST(Cut, ExtremesKeepTheLikeliest) {
  const std::vector<float> logits = {0.5f, 2.0f, 2.0f, -1.0f};
  EXPECT_EQ(kept(logits, 1.0f, {0, 0.0f, 0.0f}), std::vector<int32_t>{1});
  EXPECT_EQ(kept(logits, 1.0f, {0, 1e-30f, 0.0f}), std::vector<int32_t>{1});
  EXPECT_EQ(kept(logits, 1.0f, {1, 1.0f, 0.0f}), std::vector<int32_t>{1});
  EXPECT_EQ(kept(logits, 1.0f, {0, 1.0f, 1.0f}), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(kept(logits, 1.0f, {4, 1.0f, 0.0f}).size(), 4u);
  EXPECT_EQ(kept(logits, 1.0f, {INT32_MAX, 1.0f, 0.0f}).size(), 4u);
}

// The order of a draw is that of the row, so that a cut that takes nothing away changes nothing.
TEST(Draw, DoesNotDependOnTheWayToTheKeptSet) {
  const std::vector<float> logits = random_logits(5000, 21, 1.0f);
  SampleRow row;
  row.temperature = 1.0f;
  row.seed = 3;
  const auto plain = draw(logits, row, 300);
  SampleRow cut = row;
  cut.min_p = 1e-9f;
  EXPECT_EQ(draw(logits, cut, 300), plain);
  cut = row;
  cut.top_k = 4999;  // all but the least likely
  EXPECT_EQ(draw(logits, cut, 300), plain);
  EXPECT_GT(std::set<int32_t>(plain.begin(), plain.end()).size(), 250u);
}

TEST(Draw, DoesNotDependOnThreads) {
  const std::vector<float> logits = random_logits(9000, 22);
  SampleRow row;
  row.temperature = 1.3f;
  row.top_p = 0.95f;
  row.seed = 8;
  EXPECT_EQ(draw(logits, row, 100, 3), draw(logits, row, 100, 1));
}

TEST(Draw, GreedyRowsTakeTheLowestOfTheLargest) {
  std::vector<float> logits(3000, 1.0f);
  logits[2100] = logits[2050] = 2.0f;
  EXPECT_EQ(draw(logits, {}, 1)[0], 2050);
  SampleRow one;
  one.temperature = 2.0f;
  one.top_k = 1;
  EXPECT_EQ(draw(logits, one, 1)[0], 2050);
  const std::vector<LogitChange> forbidden = {{2050, -kInfinity, 1.0f, 0.0f}};
  SampleRow changed;
  changed.changes = forbidden;
  EXPECT_EQ(draw(logits, changed, 1)[0], 2100);
}

TEST(Draw, ATinyTemperatureIsGreedy) {
  std::vector<float> logits = random_logits(300, 4);
  SampleRow row;
  row.temperature = std::numeric_limits<float>::denorm_min();
  const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  for (const int32_t id : draw(logits, row, 20)) EXPECT_EQ(id, largest);
}

TEST(Draw, NothingFiniteIsNothing) {
  SampleRow row;
  for (row.temperature = 0.0f; row.temperature < 2.0f; row.temperature += 1.0f) {
    EXPECT_EQ(draw(std::vector<float>(40, kNan), row, 1)[0], -1);
    EXPECT_EQ(draw(std::vector<float>(40, -kInfinity), row, 1)[0], -1);
    EXPECT_EQ(draw({1.0f, kInfinity, 0.0f}, row, 1)[0], -1);
    EXPECT_EQ(draw({kNan, -3.0f, -kInfinity}, row, 1)[0], 1);  // NaN weighs nothing
  }
}

TEST(Draw, LeavesTheLogitsAsTheyCame) {
  std::vector<float> logits = random_logits(100, 12);
  const std::vector<float> before = logits;
  const std::vector<LogitChange> changes = {{5, 3.0f, 1.3f, 0.2f}, {99, -kInfinity, 1.0f, 0.0f}};
  SampleRow row;
  row.logits = logits.data();
  row.changes = changes;
  row.temperature = 1.0f;
  SampleScratch scratch;
  sample_cpu({{&row, 1}, 100, &scratch, &testing::stream_of(1)});
  EXPECT_EQ(logits, before);
}

TEST(Logprobs, AreOfTheRowBeforeAnyChange) {
  for (const int64_t size : {30, 2500}) {
    std::vector<float> logits = random_logits(size, 31, 4.0f);
    logits[11] = logits[3];  // of equal ones the lower id goes first
    double total = 0;
    for (const float x : logits) total += std::exp(static_cast<double>(x));
    const std::vector<LogitChange> changes = {{2, 50.0f, 1.0f, 0.0f}};
    TokenLogprobs told;
    SampleRow row;
    row.logits = logits.data();
    row.changes = changes;
    row.temperature = 0.5f;
    row.top_k = 3;
    row.logprobs = &told;
    row.num_top = 20;
    SampleScratch scratch;
    sample_cpu({{&row, 1}, size, &scratch, &testing::stream_of(1)});
    EXPECT_EQ(row.id, 2);
    EXPECT_EQ(told.token.id, 2);
    EXPECT_NEAR(told.token.logprob, logits[2] - std::log(total), 1e-5);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    ASSERT_EQ(told.top.size(), 20u);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(told.top[i].id, order[i]);
      EXPECT_NEAR(told.top[i].logprob, logits[static_cast<size_t>(order[i])] - std::log(total),
                  1e-5);
    }
  }
}

TEST(Logprobs, OfATargetNeedNoDraw) {
  std::vector<float> logits = {1.0f, 2.0f, kNan, -kInfinity};
  TokenLogprobs told;
  SampleRow row;
  row.logits = logits.data();
  row.logprobs = &told;
  row.num_top = 20;
  row.target = 0;
  SampleScratch scratch;
  const auto run = [&] { sample_cpu({{&row, 1}, 4, &scratch, &testing::stream_of(1)}); };
  run();
  EXPECT_EQ(row.id, 0);
  EXPECT_NEAR(told.token.logprob, -std::log(1.0 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(told.top[0].id, 1);
  row.target = 3;
  run();
  EXPECT_EQ(told.token.logprob, -kInfinity);
  logits[1] = logits[0] = kNan;
  run();
  EXPECT_EQ(row.id, -1);
}

}  // namespace
}  // namespace kvern::kernels
