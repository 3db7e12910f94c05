// The contract between scheduler and executor: inert data, one struct in, one out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"
#include "run/kv/ids.h"
#include "run/kv/page_pool.h"
#include "tensor/dtype.h"

namespace kvern::step {

using kv::PageCopy;
using kv::PageId;
using kv::SeqId;

// As kvern::Sampling says.
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy
  float top_p = 1.0f;
  int32_t top_k = 0;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<LogitBias> logit_bias;  // each id once
  uint64_t seed = 0;

  bool repeats_matter() const { return repetition_penalty != 1.0f; }
  bool counts_matter() const { return presence_penalty != 0.0f || frequency_penalty != 0.0f; }
};

// A sequence is opened before its first sample and again whenever its parameters or ids change
// otherwise than by samples. Preemption alone changes nothing: what was opened stays.
struct OpenedSequence {
  SeqId seq;
  SamplingParams sampling;
  std::vector<int32_t> prompt_ids;  // for the repetition penalty; may be empty without one
  std::vector<int32_t> answer_ids;  // sampled before; for all penalties
};

enum class InputKind : uint8_t { kIds, kPreviousSample };
enum class LogitsWanted : uint8_t { kNone, kLast, kList };
enum class Purpose : uint8_t { kSample, kLogprobs, kExport };

// A sequence's part of the step: tokens at absolute positions [start, start + count).
struct SequenceInput {
  SeqId seq;
  InputKind input = InputKind::kIds;
  std::vector<int32_t> ids;  // kIds: `count` of them
  int32_t start = 0;
  int32_t count = 0;
  int32_t draft_count = 0;  // 0 today
  LogitsWanted logits = LogitsWanted::kNone;
  std::vector<int32_t> logits_rows;  // kList: offsets into this part
  // kSample: the row of kLast. kLogprobs: each row by its target. kExport: none, logits come out.
  Purpose purpose = Purpose::kSample;
  // kLogprobs: the id that follows each of logits_rows, to be told the log-probability of;
  // kToBeSampled, for the last one alone: it is sampled.
  std::vector<int32_t> targets;
  int32_t num_logprobs = -1;  // likeliest ids told beside each; -1: nothing about sampled ids
  bool cache = false;         // its whole pages may serve others
};
inline constexpr int32_t kToBeSampled = -1;

// A named tensor given or asked for beside ids; dims of symbols tokens | sequences | wanted.
struct ExtraTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::string> dims;
  std::vector<std::byte> data;  // inputs only
};

struct StepBatch {
  std::vector<SeqId> released;         // their pages go back before anything is taken
  std::vector<PageCopy> page_copies;   // before the run, as the exchange says: copy on write
  std::vector<OpenedSequence> opened;  // device state is made
  std::vector<SeqId> closed;           // device state goes
  std::vector<SequenceInput> sequences;
  std::vector<kv::Need> page_needs;  // one per sequence that grows
  std::vector<ExtraTensor> extra_inputs;
  std::vector<ExtraTensor> extra_outputs;

  bool empty() const { return sequences.empty() && released.empty() && closed.empty(); }
  const std::vector<SeqId>& releases() const { return released; }
  const std::vector<kv::Need>& needs() const { return page_needs; }
  int32_t num_tokens() const {
    int32_t sum = 0;
    for (const SequenceInput& s : sequences) sum += s.count;
    return sum;
  }
};

struct SequenceResult {
  SeqId seq;
  std::optional<int32_t> sampled;  // when logits were wanted for sampling, unless failure says why
  std::vector<float> logits;       // Purpose::kExport: [wanted rows, vocabulary]
  // One per target, in order; then the sampled id's where num_logprobs >= 0.
  std::vector<TokenLogprobs> logprobs;
  std::string failure;  // not empty: no id could be sampled, and why
  Code failure_code = Code::kInternal;
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // in the batch's order
  std::vector<ExtraTensor> extra_outputs;
};

}  // namespace kvern::step
