#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/philox.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/sample/cut.h"

namespace kvern::kernels {

struct SampleScratch::Threads {
  std::vector<cpu::RowScratch> rows;
};

SampleScratch::SampleScratch() : threads_(std::make_unique<Threads>()) {}
SampleScratch::~SampleScratch() = default;

namespace cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

int32_t lowest_of_largest(const Row& row) {
  const auto at = std::find(row.maxima.begin(), row.maxima.end(), row.max) - row.maxima.begin();
  const int64_t span = at / kLanes * kSpanIds;
  return static_cast<int32_t>(std::find(row.logits + span, row.logits + row.count, row.max) -
                              row.logits);
}

// A multiple of the unit of weights in [0, mass), each as likely.
double random_below(double mass, uint64_t seed, uint64_t counter) {
  const auto units = static_cast<uint64_t>(mass / kWeightUnit);
  const auto product = static_cast<unsigned __int128>(philox64(seed, counter)) * units;
  return static_cast<double>(static_cast<uint64_t>(product >> 64)) * kWeightUnit;
}

// From every id of the row, in the order that candidates have.
int32_t draw_from_all(const Row& row, double total, const SampleRow& args, const RowOps& ops,
                      RowScratch& scratch) {
  const double target = random_below(total, args.seed, args.counter);
  double before = 0;
  size_t span = 0;
  while (span + 1 < scratch.masses.size() && before + scratch.masses[span] <= target) {
    before += scratch.masses[span++];
  }
  const int64_t begin = static_cast<int64_t>(span) * kSpanIds;
  const int64_t count = std::min(kSpanIds, row.count - begin);
  scratch.weights.resize(kSpanIds);
  ops.weights(row.logits + begin, count, row.max, row.scale, scratch.weights.data());
  int64_t last = -1;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    for (int64_t i = lane; i < count; i += kLanes) {
      const float weight = scratch.weights[static_cast<size_t>(i)];
      if (weight == 0.0f) continue;
      last = begin + i;
      before += weight;
      if (before > target) return static_cast<int32_t>(last);
    }
  }
  return last < 0 ? lowest_of_largest(row) : static_cast<int32_t>(last);
}

int32_t draw_from_kept(const SampleRow& args, const RowScratch& scratch) {
  const double target = random_below(mass_of(scratch.kept), args.seed, args.counter);
  double before = 0;
  int32_t last = -1;
  for (const Candidate& c : scratch.kept) {
    if (c.weight == 0.0f) continue;
    last = c.id;
    before += c.weight;
    if (before > target) break;
  }
  return last;
}

int32_t draw(const SampleRow& args, int64_t vocabulary, const RowOps& ops, RowScratch& scratch) {
  Row row = scan(args.logits, vocabulary, ops, scratch);
  if (!std::isfinite(row.max)) return -1;
  if (args.temperature <= 0.0f || args.top_k == 1) return lowest_of_largest(row);
  row.scale = std::min(1.0f / args.temperature, 1e30f);  // 0 times infinity would be NaN
  if (cut(row, {args.top_k, args.top_p, args.min_p}, ops, scratch) == Kept::kCandidates) {
    return draw_from_kept(args, scratch);
  }
  const double total = ops.masses(row.logits, row.count, row.max, row.scale, scratch.masses.data());
  return draw_from_all(row, total, args, ops, scratch);
}

float changed(float x, const LogitChange& change) {
  x += change.bias;
  x = x > 0.0f ? x / change.repetition : x * change.repetition;
  return x - change.minus;
}

void draw_changed(SampleRow& args, int64_t vocabulary, const RowOps& ops, RowScratch& scratch) {
  scratch.unchanged.clear();
  for (const LogitChange& change : args.changes) {
    KVERN_DCHECK(change.id >= 0 && change.id < vocabulary);
    float& logit = args.logits[change.id];
    scratch.unchanged.push_back(logit);
    logit = changed(logit, change);
  }
  args.id = draw(args, vocabulary, ops, scratch);
  for (size_t i = 0; i < args.changes.size(); ++i) {
    args.logits[args.changes[i].id] = scratch.unchanged[i];
  }
}

void tell_logprobs(SampleRow& args, int64_t vocabulary, const RowOps& ops, RowScratch& scratch) {
  const Row row = scan(args.logits, vocabulary, ops, scratch);
  if (!std::isfinite(row.max)) {
    args.id = -1;
    return;
  }
  const double log_total =
      std::log(ops.masses(row.logits, row.count, row.max, row.scale, scratch.masses.data()));
  const auto logprob = [&](float logit) {
    return logit == logit ? static_cast<float>(double{logit} - row.max - log_total) : kNone;
  };
  args.logprobs->token = {args.id, logprob(args.logits[args.id])};
  args.logprobs->top.clear();
  if (args.num_top <= 0) return;
  collect(row, reached_by(row, args.num_top, scratch), ops, scratch);
  keep_likeliest(args.num_top, scratch);
  std::sort(scratch.kept.begin(), scratch.kept.end(), likelier);
  for (const Candidate& c : scratch.kept) args.logprobs->top.push_back({c.id, logprob(c.logit)});
}

void run_row(SampleRow& args, int64_t vocabulary, RowScratch& scratch) {
  const RowOps& ops = row_ops();
  if (args.target >= 0) {
    KVERN_DCHECK(args.target < vocabulary);
    args.id = args.target;
  } else {
    draw_changed(args, vocabulary, ops, scratch);
  }
  if (args.logprobs != nullptr && args.id >= 0) tell_logprobs(args, vocabulary, ops, scratch);
}

}  // namespace
}  // namespace cpu

void sample_cpu(const SampleArgs& args) {
  ThreadPool& pool = cpu::cpu_stream(args.stream).pool();
  std::vector<cpu::RowScratch>& scratch = args.scratch->threads().rows;
  if (scratch.size() < static_cast<size_t>(pool.num_threads())) {
    scratch.resize(static_cast<size_t>(pool.num_threads()));
  }
  const auto run = [&](int64_t row, int thread) {
    cpu::run_row(args.rows[static_cast<size_t>(row)], args.vocabulary,
                 scratch[static_cast<size_t>(thread)]);
  };
  const auto num_rows = static_cast<int64_t>(args.rows.size());
  // A dispatch costs 1-2 us, a row of 8,192 ids as much.
  if (num_rows == 1 || args.vocabulary * num_rows < (1 << 15)) {
    for (int64_t row = 0; row < num_rows; ++row) run(row, 0);
  } else {
    pool.parallel_for(num_rows, run);
  }
}

}  // namespace kvern::kernels
