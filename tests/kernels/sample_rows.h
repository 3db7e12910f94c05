// Rows of logits and exact distributions for tests of the sampler.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/sample.h"
#include "tests/kernels/run_op.h"

namespace kvern::testing {

inline std::vector<float> random_logits(int64_t count, uint32_t seed, float spread = 2.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = normal(random);
  return out;
}

// softmax(logits / temperature) of those that top_k, min_p and top_p leave, by a full sort in
// double.
inline std::vector<double> exact_distribution(const std::vector<float>& logits, double temperature,
                                              int top_k = 0, double top_p = 1.0,
                                              double min_p = 0.0) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(top_k)));
  std::vector<double> out(logits.size(), 0.0);
  const double max = logits[order[0]];
  double total = 0;
  std::vector<size_t> left;
  for (const size_t id : order) {
    const double weight = std::exp((logits[id] - max) / temperature);
    if (weight < min_p) break;
    left.push_back(id);
    total += out[id] = weight;
  }
  double mass = 0, kept = 0;
  for (const size_t id : left) {
    if (top_p < 1.0 && mass >= top_p * total && id != left[0]) out[id] = 0.0;
    mass += out[id];
    kept = mass;
  }
  for (double& p : out) p /= kept;
  return out;
}

// One id per counter 0 … num_draws - 1.
inline std::vector<int32_t> draw(std::vector<float> logits, kernels::SampleRow row, int num_draws,
                                 int num_threads = 1) {
  kernels::SampleScratch scratch;
  std::vector<std::vector<float>> copies(static_cast<size_t>(num_draws), logits);
  std::vector<kernels::SampleRow> rows(static_cast<size_t>(num_draws), row);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].logits = copies[i].data();
    rows[i].counter = i;
  }
  kernels::sample_cpu(
      {rows, static_cast<int64_t>(logits.size()), &scratch, &stream_of(num_threads)});
  std::vector<int32_t> ids;
  for (const kernels::SampleRow& r : rows) ids.push_back(r.id);
  return ids;
}

// Chi-square of drawn ids against probabilities, in standard deviations of a normal variable
// (Wilson and Hilferty). Ids that are expected less than five times are counted together.
inline double surprise(const std::vector<int32_t>& ids, const std::vector<double>& probabilities) {
  std::vector<double> seen(probabilities.size(), 0.0);
  for (const int32_t id : ids) ++seen[static_cast<size_t>(id)];
  const auto num = static_cast<double>(ids.size());
  double chi = 0, rest_seen = 0, rest_wanted = 0;
  int cells = 0;
  const auto add = [&](double got, double wanted) {
    chi += (got - wanted) * (got - wanted) / wanted;
    ++cells;
  };
  for (size_t i = 0; i < seen.size(); ++i) {
    const double wanted = probabilities[i] * num;
    if (wanted == 0.0) {
      EXPECT_EQ(seen[i], 0.0) << "id " << i << " was cut";
    } else if (wanted >= 5.0) {
      add(seen[i], wanted);
    } else {
      rest_seen += seen[i];
      rest_wanted += wanted;
    }
  }
  if (rest_wanted > 0.0) add(rest_seen, rest_wanted);
  if (cells < 2) return 0.0;
  const double freedom = cells - 1;
  const double spread = 2.0 / (9.0 * freedom);
  return (std::cbrt(chi / freedom) - (1.0 - spread)) / std::sqrt(spread);
}

}  // namespace kvern::testing
