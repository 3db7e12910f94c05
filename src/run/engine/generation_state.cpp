#include "run/engine/generation_state.h"

#include <fmt/format.h>

#include <new>
#include <utility>

namespace kvern::engine {
namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
  if (from == Clock::time_point() || to < from) return 0.0;
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double per_second(int64_t tokens, double ms) {
  return ms > 0.0 ? static_cast<double>(tokens) * 1000.0 / ms : 0.0;
}

}  // namespace

double Timings::prefill_tokens_per_s() const {
  return per_second(prompt_tokens, prefill_ms);
}

double Timings::decode_tokens_per_s() const {
  return per_second(answer_tokens - 1, decode_ms);
}

WaitingPlace::WaitingPlace(std::shared_ptr<std::atomic<int32_t>> taken, int32_t most)
    : taken_(std::move(taken)) {
  if (taken_->fetch_add(1) < most) return;
  leave();
  throw Error(Code::kInvalidRequest,
              fmt::format("engine: {} requests wait already, as many as max_waiting allows; submit "
                          "again when some of them have begun",
                          most));
}

GenerationState::GenerationState(kv::SeqId seq, size_t prompt_tokens,
                                 std::vector<std::string> stop_strings,
                                 std::shared_ptr<Inbox> inbox, WaitingPlace place)
    : seq_(seq),
      stop_strings_(std::move(stop_strings)),
      inbox_(std::move(inbox)),
      place_(std::move(place)),
      prompt_tokens_(prompt_tokens),
      submitted_(Clock::now()) {}

void GenerationState::note_started(Clock::time_point at, int64_t cached_tokens) {
  const std::scoped_lock lock(mutex_);
  if (started_ != Clock::time_point()) return;
  place_.leave();
  started_ = at;
  cached_tokens_ = cached_tokens;
}

bool GenerationState::ended() const {
  const std::scoped_lock lock(mutex_);
  return complete_;
}

void GenerationState::note_token(int32_t id, Clock::time_point at) {
  const std::scoped_lock lock(mutex_);
  ids_.push_back(id);
  if (ids_.size() == 1) first_token_ = at;
  last_token_ = at;
}

void GenerationState::push(Event event) {
  {
    const std::scoped_lock lock(mutex_);
    if (complete_) return;
    complete_ = event.kind == EventKind::kFinished || event.kind == EventKind::kFailed;
    if (complete_) place_.leave();
    events_.push_back(std::move(event));
  }
  pushed_.notify_one();
}

void GenerationState::fail(Code code, const char* message) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (complete_) return;
    complete_ = true;
    place_.leave();
    try {
      Event event;
      event.kind = EventKind::kFailed;
      event.finish_reason = FinishReason::kFailed;
      event.message = message;
      event.code = code;
      events_.push_back(std::move(event));
    } catch (const std::bad_alloc&) {  // next() returns false then
    }
  }
  pushed_.notify_one();
}

bool GenerationState::note_posted(sched::EventKind kind) {
  const std::scoped_lock lock(mutex_);
  if (kind == sched::EventKind::kToken) in_flight_ += kTokenCost;
  if (kind == sched::EventKind::kLogits) in_flight_ += kLogitsCost;
  if (kind == sched::EventKind::kPromptLogprobs) in_flight_ += kPromptLogprobsCost;
  paused_ |= in_flight_ >= kPauseAt;
  return paused_;
}

bool GenerationState::wants_pause() const {
  const std::scoped_lock lock(mutex_);
  return paused_;
}

bool GenerationState::next(Event& event) {
  bool resume = false;
  {
    std::unique_lock lock(mutex_);
    pushed_.wait(lock, [&] { return !events_.empty() || complete_; });
    if (events_.empty()) return false;
    event = std::move(events_.front());
    events_.pop_front();
    if (event.kind == EventKind::kToken) in_flight_ -= kTokenCost;
    if (event.kind == EventKind::kLogits) in_flight_ -= kLogitsCost;
    if (event.kind == EventKind::kPromptLogprobs) in_flight_ -= kPromptLogprobsCost;
    resume = paused_ && in_flight_ <= kResumeAt;
    if (resume) paused_ = false;
  }
  // The engine thread reads the state of that moment, so that crossing messages do no harm.
  if (!resume) return true;
  try {
    inbox_->flow_changed(seq_);
  } catch (const std::bad_alloc&) {  // the next event tries again
    const std::scoped_lock lock(mutex_);
    paused_ = true;
  }
  return true;
}

// Destructors call it. Without memory for the word the answer runs to its own end, unread: it is
// paused when its queue is full, and then gives its pages to whoever needs them.
void GenerationState::cancel() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (complete_) return;
  }
  try {
    inbox_->finish(seq_, FinishReason::kCancelled);
  } catch (const std::bad_alloc&) {
  }
}

std::vector<int32_t> GenerationState::ids() const {
  const std::scoped_lock lock(mutex_);
  return ids_;
}

Timings GenerationState::timings() const {
  const std::scoped_lock lock(mutex_);
  Timings out;
  out.queue_ms = ms_between(submitted_, started_);
  out.prefill_ms = ms_between(started_, first_token_);
  out.decode_ms = ms_between(first_token_, last_token_);
  out.prompt_tokens = static_cast<int64_t>(prompt_tokens_);
  out.cached_tokens = cached_tokens_;
  out.answer_tokens = static_cast<int64_t>(ids_.size());
  return out;
}

}  // namespace kvern::engine
