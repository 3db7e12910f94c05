#include "run/sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "run/sched/sequence.h"

namespace kvern::sched {
namespace {

void check_options(const SchedulerOptions& o) {
  const auto need = [](bool ok, const std::string& message) {
    if (!ok) throw Error(Code::kInvalidArgument, "scheduler: " + message);
  };
  need(o.max_sequences >= 1, fmt::format("max_sequences is {}; at least 1", o.max_sequences));
  need(o.prefill_chunk_tokens >= 1,
       fmt::format("prefill_chunk_tokens is {}; at least 1", o.prefill_chunk_tokens));
  need(o.max_tokens_per_step >= o.max_sequences,
       fmt::format("max_tokens_per_step is {}, but {} sequences must decode at once",
                   o.max_tokens_per_step, o.max_sequences));
  need(o.max_wanted_rows >= o.max_sequences,
       fmt::format("max_wanted_rows is {}, but {} sequences must decode at once", o.max_wanted_rows,
                   o.max_sequences));
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options) : options_(std::move(options)) {
  check_options(options_);
}

Scheduler::~Scheduler() = default;

void Scheduler::submit(Request request) {
  KVERN_CHECK(request.id.valid() && !request.prompt_ids.empty());
  waiting_.push_back(std::make_unique<Sequence>(std::move(request)));
}

void Scheduler::cancel(SeqId id) {
  finish(id, FinishReason::kCancelled, "");
}

void Scheduler::finish(SeqId id, FinishReason reason, const std::string& message) {
  if (Sequence* sequence = find(id)) end(*sequence, reason, message);
  drop_ended();
}

void Scheduler::finish_all(FinishReason reason, const std::string& message, Code code) {
  for (const SequencePtr& sequence : running_) end(*sequence, reason, message, code);
  for (const SequencePtr& sequence : waiting_) end(*sequence, reason, message, code);
  drop_ended();
}

void Scheduler::set_paused(SeqId id, bool paused) {
  if (Sequence* sequence = find(id)) sequence->paused = paused;
}

void Scheduler::apply(const step::StepBatch& batch, const step::StepResult& result) {
  KVERN_CHECK(batch.sequences.size() == result.sequences.size(), "{} parts, {} results",
              batch.sequences.size(), result.sequences.size());
  last_releases_.clear();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    apply_part(batch.sequences[i], result.sequences[i]);
  }
  drop_ended();
}

void Scheduler::apply_part(const step::SequenceInput& part, const step::SequenceResult& result) {
  Sequence* sequence = find(part.seq);
  KVERN_CHECK(sequence != nullptr && result.seq == part.seq && sequence->scheduled == part.count,
              "sequence {} was not in the batch", part.seq.value);
  sequence->computed += part.count;
  sequence->scheduled = 0;
  if (sequence->exports()) {
    const auto first_row = static_cast<int32_t>(sequence->next_row);
    sequence->next_row += part.logits_rows.size();
    if (!part.logits_rows.empty()) {
      events_.push_back(
          {part.seq, EventKind::kLogits, -1, first_row, result.logits, {}, {}, {}, {}, 0});
    }
    // Nobody waits for what is behind the last wanted row.
    if (sequence->next_row == sequence->request.export_rows.size()) {
      end(*sequence, FinishReason::kExported, "");
    }
  } else if (part.logits != step::LogitsWanted::kNone) {
    if (!result.failure.empty()) {  // the rows behind the one that failed are not there
      return end(*sequence, FinishReason::kFailed, result.failure, result.failure_code);
    }
    std::vector<TokenLogprobs> logprobs = take_prompt_logprobs(*sequence, part, result);
    const bool samples = part.targets.empty() || part.targets.back() == step::kToBeSampled;
    KVERN_CHECK(result.sampled.has_value() == samples, "sequence {}: a sample without need of one",
                part.seq.value);
    if (samples) take_sample(*sequence, *result.sampled, std::move(logprobs));
  }
}

// Tells those of the prompt; gives back that of the sampled token.
std::vector<TokenLogprobs> Scheduler::take_prompt_logprobs(Sequence& sequence,
                                                           const step::SequenceInput& part,
                                                           const step::SequenceResult& result) {
  const auto rows = static_cast<ptrdiff_t>(part.targets.size()) -
                    std::count(part.targets.begin(), part.targets.end(), step::kToBeSampled);
  if (rows == 0) return result.logprobs;
  KVERN_CHECK(static_cast<ptrdiff_t>(result.logprobs.size()) >= rows,
              "sequence {}: {} log-probabilities of {}", part.seq.value, result.logprobs.size(),
              rows);
  Event event;
  event.seq = part.seq;
  event.kind = EventKind::kPromptLogprobs;
  event.first_row = part.start + part.logits_rows[0] + 1;
  event.logprobs.assign(result.logprobs.begin(), result.logprobs.begin() + rows);
  events_.push_back(std::move(event));
  sequence.next_prompt_row = part.start + part.logits_rows[0] + static_cast<int32_t>(rows);
  return {result.logprobs.begin() + rows, result.logprobs.end()};
}

void Scheduler::take_sample(Sequence& sequence, int32_t token,
                            std::vector<TokenLogprobs> logprobs) {
  if (sequence.stops_at(token)) return end(sequence, FinishReason::kStop, "");
  sequence.ids.push_back(token);
  events_.push_back(
      {sequence.request.id, EventKind::kToken, token, 0, {}, {}, {}, {}, std::move(logprobs), 0});
  if (sequence.answer_tokens() >= sequence.request.max_new_tokens) {
    return end(sequence, FinishReason::kLength, "");
  }
  if (sequence.request.recompute_context) {
    sequence.computed = 0;
    to_release_.push_back(sequence.request.id);
  }
}

void Scheduler::abandon(const step::StepBatch& batch, const std::string& message, Code code) {
  // The lease took the released pages back, so that they are still to be released.
  to_release_.insert(to_release_.end(), last_releases_.begin(), last_releases_.end());
  last_releases_.clear();
  to_close_.insert(to_close_.end(), batch.closed.begin(), batch.closed.end());
  for (const step::SequenceInput& part : batch.sequences) {
    Sequence* sequence = find(part.seq);
    KVERN_CHECK(sequence != nullptr);
    sequence->scheduled = 0;
    end(*sequence, FinishReason::kFailed, message, code);
  }
  drop_ended();
}

void Scheduler::end(Sequence& sequence, FinishReason reason, const std::string& message,
                    Code code) {
  if (std::exchange(sequence.ended, true)) return;
  const SeqId id = sequence.request.id;
  const bool failed = reason == FinishReason::kFailed || reason == FinishReason::kKvExhausted;
  if (const int32_t computed = std::exchange(sequence.computed, 0); computed > 0) {
    if (sequence.keeps && !failed) {
      keep({id, sequence.ids, computed});
    } else {
      to_release_.push_back(id);
    }
  }
  if (sequence.started) to_close_.push_back(id);
  events_.push_back({id, EventKind::kFinished, -1, 0, {}, reason, message, code, {}, 0});
}

void Scheduler::keep(KeptContext context) {
  kept_.push_back(std::move(context));
}

const KeptContext* Scheduler::kept(SeqId id) const {
  for (const KeptContext& context : kept_) {
    if (context.id == id) return &context;
  }
  return nullptr;
}

void Scheduler::drop_context(SeqId id) {
  if (Sequence* sequence = find(id)) sequence->keeps = false;
  if (kept(id) == nullptr) return;
  to_release_.push_back(id);
  std::erase_if(kept_, [id](const KeptContext& context) { return context.id == id; });
}

void Scheduler::drop_all_contexts() {
  for (const SequencePtr& sequence : running_) sequence->keeps = false;
  for (const SequencePtr& sequence : waiting_) sequence->keeps = false;
  for (const KeptContext& context : std::exchange(kept_, {})) to_release_.push_back(context.id);
}

void Scheduler::drop_ended() {
  const auto ended = [](const SequencePtr& sequence) { return sequence->ended; };
  std::erase_if(running_, ended);
  std::erase_if(waiting_, ended);
}

std::vector<Event> Scheduler::take_events() {
  return std::exchange(events_, {});
}

bool Scheduler::idle() const {
  return waiting_.empty() && running_.empty() && to_release_.empty() && to_close_.empty();
}

SchedulerCounts Scheduler::counts() const {
  return {static_cast<int32_t>(waiting_.size()), static_cast<int32_t>(running_.size()),
          preemptions_, static_cast<int32_t>(kept_.size()), prefix_hit_tokens_};
}

Sequence* Scheduler::find(SeqId id) {
  for (const SequencePtr& sequence : running_) {
    if (sequence->request.id == id) return sequence.get();
  }
  for (const SequencePtr& sequence : waiting_) {
    if (sequence->request.id == id) return sequence.get();
  }
  return nullptr;
}

}  // namespace kvern::sched
