// From a step's logits to ids and log-probabilities, and what that needs to know of each sequence.
//
// An id depends on its row of logits, the sequence's parameters, the ids before it and the position
// it gets: the seed's random number of that position is drawn. So neither the batch nor chunks nor
// a preemption can change an answer.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/operands.h"
#include "kernels/sample.h"
#include "run/exec/step_inputs.h"
#include "run/step/step.h"

namespace kvern::exec {

class Sampler {
 public:
  explicit Sampler(int64_t vocabulary_size) : vocabulary_(vocabulary_size) {}

  // Forgets the closed, learns the opened. A sequence that nobody opened is greedy.
  void update(const step::StepBatch& batch);
  // All rows of the step at once; what Purpose::kSample and kLogprobs ask for is put into `result`,
  // which holds one entry per sequence of the batch. logits: [wanted rows, vocabulary].
  void run(const step::StepBatch& batch, const kernels::Operand& logits, device::Stream& stream,
           step::StepResult& result);

  const LastSamples& last_samples() const { return last_samples_; }

 private:
  struct Sequence {
    step::SamplingParams params;
    std::vector<kernels::LogitChange> changes;    // of distinct ids
    std::unordered_map<int32_t, size_t> places;   // of ids in changes
    std::unordered_map<int32_t, int32_t> counts;  // of the answer's ids

    kernels::LogitChange& change(int32_t id);
    void note_prompt(int32_t id);
    void note_answer(int32_t id);
  };
  // A wanted row that is no export.
  struct Wish {
    size_t part = 0;  // of the batch
    int64_t row = 0;  // of the logits
    int32_t target = step::kToBeSampled;
    int64_t drawn = -1;  // index into rows_; -1: the largest logit will do
  };

  void list_wishes(const step::StepBatch& batch);
  void add_row(Wish& wish, const step::SequenceInput& part);
  void find_largest(const kernels::Operand& logits, device::Stream& stream);
  void draw(const kernels::Operand& logits, device::Stream& stream);
  void take(const Wish& wish, const step::SequenceInput& part, const float* logits,
            step::SequenceResult& out);

  const int64_t vocabulary_;
  std::unordered_map<kv::SeqId, Sequence> sequences_;
  LastSamples last_samples_;
  kernels::SampleScratch scratch_;
  // Of the step at hand.
  std::vector<Wish> wishes_;
  std::vector<kernels::SampleRow> rows_;
  std::vector<TokenLogprobs> logprobs_;  // one per entry of rows_
  std::vector<int32_t> largest_;         // by row of the logits
};

}  // namespace kvern::exec
