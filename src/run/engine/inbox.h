// What callers ask of the engine thread, in order, and how the thread sleeps. Shared with every
// generation, so that one that outlives its engine asks in vain instead of touching freed memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/sched/request.h"

namespace kvern::engine {

class GenerationState;

class Inbox {
 public:
  struct Submitted {
    sched::Request request;
    std::shared_ptr<GenerationState> generation;
  };
  struct Finished {
    kv::SeqId seq;
    sched::FinishReason reason;
  };
  struct Content {
    std::vector<Submitted> submitted;
    std::vector<Finished> finished;               // cancels, and stop strings that were met
    std::vector<kv::SeqId> flow;                  // whose queue filled or drained
    std::vector<kv::SeqId> dropped;               // kept contexts that nobody uses any more
    std::vector<std::function<void()>> commands;  // to be run in the engine thread, between steps
    std::string fault;                            // the text thread cannot go on: why
    bool closed = false;
    bool empty() const {
      return submitted.empty() && finished.empty() && flow.empty() && dropped.empty() &&
             commands.empty() && fault.empty() && !closed;
    }
  };

  enum class Wait : uint8_t { kNo, kYes };

  // Takes `submitted` unless it throws.
  void submit(Submitted& submitted);
  void finish(kv::SeqId seq, sched::FinishReason reason);
  void flow_changed(kv::SeqId seq);
  // Destructors call it. Without memory for the word the context stays until others need its pages.
  void drop_context(kv::SeqId seq) noexcept;
  // False when the engine has ended: it will not be run.
  bool post_command(std::function<void()> command);
  void report_fault(const std::string& what);
  void close();

  // By the engine thread: everything that came since. With Wait::kYes it sleeps until there is
  // something; `idle` says that it has nothing left to do until then.
  Content take(Wait wait, bool idle);
  void wait_idle();

 private:
  template <class Change>
  bool change(Change change_content);

  std::mutex mutex_;
  std::condition_variable came_, became_idle_;
  Content content_;
  bool idle_ = true;
  bool closed_ = false;
};

}  // namespace kvern::engine
