// The sampler on one row of logits, in GB/s of logits read once; the roof is reading from memory, a
// row that has just been written lies in cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <random>
#include <vector>

#include "bench/kernels/roof.h"
#include "kernels/sample.h"

namespace kvern::bench {
namespace {

ThreadPool& pool() {
  static ThreadPool one(1);
  return one;
}

// Like a language model's: a few ids lead, most lie far below.
std::vector<float> logits_of(int64_t vocabulary) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 2.5f);
  std::vector<float> out(static_cast<size_t>(vocabulary));
  for (float& x : out) x = normal(random);
  for (int i = 0; i < 30; ++i) out[random() % out.size()] += 10.0f;
  return out;
}

struct Setting {
  const char* name;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  int32_t num_logprobs;  // -1: none
};

constexpr Setting kSettings[] = {
    {"temperature", 0.8f, 0, 1.0f, 0.0f, -1},        {"top_k_50", 0.8f, 50, 1.0f, 0.0f, -1},
    {"top_p_0.95", 0.8f, 0, 0.95f, 0.0f, -1},        {"min_p_0.05", 0.8f, 0, 1.0f, 0.05f, -1},
    {"all_cuts", 0.8f, 50, 0.95f, 0.05f, -1},        {"hot_top_p", 5.0f, 0, 0.95f, 0.0f, -1},
    {"greedy_logprobs_20", 0.0f, 0, 1.0f, 0.0f, 20},
};

void report(benchmark::State& state, const Stopwatch& watch, int64_t vocabulary) {
  const double seconds = watch.seconds() / static_cast<double>(state.iterations());
  state.counters["us"] = seconds * 1e6;
  state.counters["GB/s"] = static_cast<double>(vocabulary) * 4 / seconds / 1e9;
}

void run_sample(benchmark::State& state, const Setting& setting, int64_t vocabulary) {
  std::vector<float> logits = logits_of(vocabulary);
  device::CpuStream stream(pool());
  kernels::SampleScratch scratch;
  TokenLogprobs told;
  kernels::SampleRow row;
  row.logits = logits.data();
  row.temperature = setting.temperature;
  row.top_k = setting.top_k;
  row.top_p = setting.top_p;
  row.min_p = setting.min_p;
  if (setting.num_logprobs >= 0) row.logprobs = &told;
  row.num_top = setting.num_logprobs;
  const Stopwatch watch(pool());
  for (auto _ : state) {
    ++row.counter;
    kernels::sample_cpu({{&row, 1}, vocabulary, &scratch, &stream});
    benchmark::DoNotOptimize(row.id);
  }
  report(state, watch, vocabulary);
}

void run_argmax(benchmark::State& state, int64_t vocabulary) {
  const std::vector<float> logits = logits_of(vocabulary);
  device::CpuStream stream(pool());
  int32_t id = 0;
  const Stopwatch watch(pool());
  for (auto _ : state) {
    kernels::argmax_cpu({logits.data(), 1, vocabulary, vocabulary, &id, &stream});
    benchmark::DoNotOptimize(id);
  }
  report(state, watch, vocabulary);
}

void register_all() {
  for (const int64_t vocabulary : {int64_t{49152}, int64_t{262144}}) {
    benchmark::RegisterBenchmark(fmt::format("argmax/{}", vocabulary).c_str(),
                                 [=](benchmark::State& s) { run_argmax(s, vocabulary); });
    for (const Setting& setting : kSettings) {
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}", setting.name, vocabulary).c_str(),
          [=, &setting](benchmark::State& s) { run_sample(s, setting, vocabulary); });
    }
  }
}

}  // namespace
}  // namespace kvern::bench

int main(int argc, char** argv) {
  kvern::bench::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
