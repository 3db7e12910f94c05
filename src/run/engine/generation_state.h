// What a generation's consumer, the text thread and the engine thread share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "run/engine/generation.h"
#include "run/engine/inbox.h"

namespace kvern::engine {

using Clock = std::chrono::steady_clock;

// One of the engine's max_waiting places, until the request begins or ends.
class WaitingPlace {
 public:
  // Throws Error(kInvalidRequest) when `most` are taken.
  WaitingPlace(std::shared_ptr<std::atomic<int32_t>> taken, int32_t most);
  WaitingPlace(WaitingPlace&&) noexcept = default;
  ~WaitingPlace() { leave(); }
  void leave() noexcept {
    if (taken_ != nullptr) taken_->fetch_sub(1);
    taken_.reset();
  }

 private:
  std::shared_ptr<std::atomic<int32_t>> taken_;
};

class GenerationState {
 public:
  GenerationState(kv::SeqId seq, size_t prompt_tokens, std::vector<std::string> stop_strings,
                  std::shared_ptr<Inbox> inbox, WaitingPlace place);

  kv::SeqId seq() const { return seq_; }
  const std::vector<std::string>& stop_strings() const { return stop_strings_; }

  // By the text thread.
  void note_token(int32_t id, Clock::time_point at);
  void push(Event event);

  // By either of the engine's threads, when it cannot go on: the last event, unless that came.
  void fail(Code code, const char* message) noexcept;

  // By the engine thread: when the step began that holds its first tokens. Later calls are ignored.
  void note_started(Clock::time_point at, int64_t cached_tokens);
  // By the engine thread, before it posts an event: true when the consumer is so far behind that
  // the sequence should wait. Counted here and not in the queue, because the text thread may lag.
  bool note_posted(sched::EventKind kind);
  bool wants_pause() const;

  // By the consumer.
  bool next(Event& event);
  void cancel() noexcept;
  std::vector<int32_t> ids() const;
  Timings timings() const;
  bool ended() const;

 private:
  // Units of waiting work: a token counts 1, a block of logits (megabytes) 128, a chunk's
  // log-probabilities 16.
  static constexpr int kPauseAt = 256;
  static constexpr int kResumeAt = 64;
  static constexpr int kTokenCost = 1, kLogitsCost = 128, kPromptLogprobsCost = 16;

  const kv::SeqId seq_;
  const std::vector<std::string> stop_strings_;
  const std::shared_ptr<Inbox> inbox_;

  mutable std::mutex mutex_;
  WaitingPlace place_;
  std::condition_variable pushed_;
  std::deque<Event> events_;
  int in_flight_ = 0;  // posted, not yet taken
  bool paused_ = false;
  bool complete_ = false;  // the last event was pushed
  std::vector<int32_t> ids_;
  size_t prompt_tokens_;
  int64_t cached_tokens_ = 0;
  Clock::time_point submitted_, started_, first_token_, last_token_;
};

// What submit() hands out: its end is the request's end.
class GenerationHandle final : public Generation {
 public:
  explicit GenerationHandle(std::shared_ptr<GenerationState> state,
                            std::shared_ptr<const KeptHandle> kept = nullptr)
      : kept_(std::move(kept)), state_(std::move(state)) {}
  ~GenerationHandle() override { state_->cancel(); }
  GenerationHandle(const GenerationHandle&) = delete;
  GenerationHandle& operator=(const GenerationHandle&) = delete;

  bool next(Event& event) override { return state_->next(event); }
  void cancel() override { state_->cancel(); }
  std::vector<int32_t> ids() const override { return state_->ids(); }
  Timings timings() const override { return state_->timings(); }
  bool ended() const override { return state_->ended(); }
  std::shared_ptr<const KeptHandle> kept() const override { return kept_; }

 private:
  std::shared_ptr<const KeptHandle> kept_;  // goes after the request was cancelled
  std::shared_ptr<GenerationState> state_;
};

}  // namespace kvern::engine
