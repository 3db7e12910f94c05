// The batched sampler: one token id per row of logits, and log-probabilities. Not an op of
// programs; the executor calls it.
//
// Every number here is the same on every instruction set and with any number of threads: see
// cpu/sample/row_scan.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/device.h"
#include "kvern/types.h"

namespace kvern::kernels {

struct ArgmaxArgs {
  const float* logits;  // [rows, vocabulary], rows `stride` elements apart
  int64_t rows;
  int64_t vocabulary;
  int64_t stride;
  int32_t* ids;  // [rows]: index of the largest, the lowest of equal ones; NaN never wins
  device::Stream* stream;
};

void argmax_cpu(const ArgmaxArgs& args);

// What bias and penalties do to one id: x + bias; then / repetition above zero, * repetition
// below; then - minus.
struct LogitChange {
  int32_t id = 0;
  float bias = 0.0f;
  float repetition = 1.0f;
  float minus = 0.0f;
};

// One row: either an id is drawn, or the log-probability of a given one is told.
struct SampleRow {
  float* logits = nullptr;               // [vocabulary]; changed meanwhile, then as before
  std::span<const LogitChange> changes;  // of distinct ids
  float temperature = 0.0f;              // 0: the largest, the lowest of equal ones
  int32_t top_k = 0;                     // of equal logits the lower ids stay
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  uint64_t counter = 0;  // which number of the seed's: the position of the id to be drawn
  int32_t target = -1;   // >= 0: nothing is drawn
  TokenLogprobs* logprobs = nullptr;  // where wanted; of the row as it came, before any change
  int32_t num_top = 0;                // likeliest ids beside

  // -1: nothing can be drawn or told, since no logit is a finite number. NaN weighs nothing.
  int32_t id = -1;
};

// Memory that the sampler keeps from call to call, per thread.
class SampleScratch {
 public:
  SampleScratch();
  ~SampleScratch();
  SampleScratch(const SampleScratch&) = delete;
  SampleScratch& operator=(const SampleScratch&) = delete;
  struct Threads;
  Threads& threads() { return *threads_; }

 private:
  std::unique_ptr<Threads> threads_;
};

struct SampleArgs {
  std::span<SampleRow> rows;
  int64_t vocabulary = 0;
  SampleScratch* scratch = nullptr;
  device::Stream* stream = nullptr;
};

// No row is sorted. A row costs one read, and another where probabilities are summed.
void sample_cpu(const SampleArgs& args);

}  // namespace kvern::kernels
