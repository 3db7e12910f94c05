// One request's answer while it comes. Events are taken by one consumer; cancel() is safe from any
// thread. Destroying the last reference cancels what still runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"
#include "run/sched/request.h"

namespace kvern::engine {

using sched::FinishReason;

enum class EventKind : uint8_t { kToken, kLogits, kPromptLogprobs, kFinished, kFailed };

struct Event {
  EventKind kind = EventKind::kToken;
  int32_t id = -1;   // kToken
  std::string text;  // text that became complete; kFinished: what was still held back
  FinishReason finish_reason = FinishReason::kNone;  // kFinished, kFailed
  std::string message;                               // kFailed: what went wrong
  Code code = Code::kInternal;                       // kFailed: whose fault it is
  int32_t first_row = 0;                             // kLogits: index into export_rows
  std::vector<float> logits;                         // kLogits: [rows, vocabulary]
  // kToken: its own, where asked for; kPromptLogprobs: of the tokens from first_position on.
  std::vector<TokenLogprobs> logprobs;
  int64_t first_position = 0;
};

struct Timings {
  double queue_ms = 0;    // submit until the first tokens were in a batch
  double prefill_ms = 0;  // from then until the first token of the answer
  double decode_ms = 0;   // from the first token of the answer to the last
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of them, in pages already
  int64_t answer_tokens = 0;
  double ttft_ms() const { return queue_ms + prefill_ms; }
  double prefill_tokens_per_s() const;
  double decode_tokens_per_s() const;  // of the answer's tokens after the first
};

class KeptHandle;

class Generation {
 public:
  virtual ~Generation() = default;
  // Blocks until the next event; false after kFinished or kFailed was taken.
  virtual bool next(Event& event) = 0;
  virtual void cancel() = 0;
  virtual std::vector<int32_t> ids() const = 0;  // of the answer so far
  virtual Timings timings() const = 0;
  // The last event is there, taken or not.
  virtual bool ended() const = 0;
  // Keeps the pages of a request with keep_context, also when the generation is gone; null without.
  virtual std::shared_ptr<const KeptHandle> kept() const = 0;
};

}  // namespace kvern::engine
