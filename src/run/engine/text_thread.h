// The text thread: turns the scheduler's events into the requests' own, with text and stop strings,
// away from the engine thread. What it cannot handle fails every request and the engine with it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "run/engine/generation_state.h"
#include "run/engine/inbox.h"
#include "run/engine/stop_strings.h"
#include "run/sched/request.h"
#include "text/detokenizer.h"

namespace kvern::engine {

class TextThread {
 public:
  // Stop strings that are met go back to `inbox`. `tokenizer` may be null: no text then.
  TextThread(std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<Inbox> inbox);
  ~TextThread();  // after the last event was worked off
  TextThread(const TextThread&) = delete;
  TextThread& operator=(const TextThread&) = delete;

  // By the engine thread: before the first event of the generation.
  void add(std::shared_ptr<GenerationState> generation);
  void post(std::vector<sched::Event> events, Clock::time_point at);
  void wait_drained();

 private:
  struct Message {
    std::shared_ptr<GenerationState> generation;  // to be added, or null
    std::vector<sched::Event> events;
    Clock::time_point at;
  };
  struct Answer {
    std::shared_ptr<GenerationState> generation;
    std::optional<text::StreamDetokenizer> detokenizer;
    StopStrings stops;
  };

  void post(Message message);
  void loop();
  void handle(Message& message);
  void break_down(const Message& message, const char* what) noexcept;
  void handle(sched::Event& event, Clock::time_point at);
  void on_token(Answer& answer, sched::Event& event, Clock::time_point at);
  void on_finished(Answer& answer, sched::Event& event);

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::shared_ptr<Inbox> inbox_;
  std::unordered_map<kv::SeqId, Answer> answers_;  // the text thread's own

  std::mutex mutex_;
  std::condition_variable posted_, drained_;
  std::vector<Message> messages_;
  bool working_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace kvern::engine
