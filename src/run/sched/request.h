// A request as the scheduler sees it, and what the scheduler tells about it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "run/kv/ids.h"
#include "run/step/step.h"

namespace kvern::sched {

using kv::SeqId;

// Validated by whoever submits it: ids inside the vocabulary, prompt_ids not empty, prompt and
// answer together inside the plan's context length, max_new_tokens >= 1.
struct Request {
  SeqId id;  // new for every request, ascending
  std::vector<int32_t> prompt_ids;
  int32_t max_new_tokens = 0;
  std::vector<int32_t> stop_ids;  // ends the answer; is not part of it
  step::SamplingParams sampling;
  // After each sampled token the pages go back and the whole context is computed again.
  bool recompute_context = false;
  // kExport: no token is sampled; logits of `export_rows` come out as the prompt passes.
  step::Purpose purpose = step::Purpose::kSample;
  std::vector<int32_t> export_rows;  // ascending positions of the prompt
  int32_t num_logprobs = -1;         // as kvern::Request
  // Every token of the prompt is computed, those of the prefix cache too: rows come from nowhere
  // else.
  bool prompt_logprobs = false;
  bool use_prefix_cache = true;  // begins with pages of an equal prefix, leaves its own behind
  bool keep_context = false;     // the pages stay when the answer ends, until they are needed
  // A kept context that prompt_ids go on from, or as much of it as they share: its pages are taken
  // where they are still there. `base_use` is held until then; when it is the last reference to the
  // context, that one's own hold on the pages ends.
  SeqId base;
  std::shared_ptr<const void> base_use;
};

enum class FinishReason : uint8_t {
  kNone = 0,
  kStop,         // a stop id, or a stop string of the engine
  kLength,       // max_new_tokens
  kExported,     // every wanted row came out
  kCancelled,    // by the caller
  kKvExhausted,  // no page was left and no sequence could give one
  kFailed,       // our bug or the device's; the message says which
};

enum class EventKind : uint8_t {
  kStarted,         // its first tokens are in a batch
  kToken,           // `token` was sampled; `logprobs` holds its own where they were asked for
  kLogits,          // `logits` of the rows from `first_row` of export_rows on
  kPromptLogprobs,  // `logprobs` of the prompt's tokens from position `first_row` on
  kFinished,        // the last one; `reason`, and `message` where the reason is a failure
};

struct Event {
  SeqId seq;
  EventKind kind = EventKind::kToken;
  int32_t token = -1;
  int32_t first_row = 0;      // index into export_rows
  std::vector<float> logits;  // [rows, vocabulary]
  FinishReason reason = FinishReason::kNone;
  std::string message;
  Code code = Code::kInternal;  // whose fault a failure is
  std::vector<TokenLogprobs> logprobs;
  int32_t cached_tokens = 0;  // kStarted: tokens of the prompt that need not be computed
};

}  // namespace kvern::sched
