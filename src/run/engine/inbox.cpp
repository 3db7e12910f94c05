#include "run/engine/inbox.h"

#include <new>
#include <utility>

namespace kvern::engine {

template <class Change>
bool Inbox::change(Change change_content) {
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return false;
    change_content(content_);
    idle_ = false;
  }
  came_.notify_one();
  return true;
}

void Inbox::submit(Submitted& submitted) {
  change([&](Content& content) { content.submitted.push_back(std::move(submitted)); });
}

void Inbox::finish(kv::SeqId seq, sched::FinishReason reason) {
  change([&](Content& content) { content.finished.push_back({seq, reason}); });
}

void Inbox::flow_changed(kv::SeqId seq) {
  change([&](Content& content) { content.flow.push_back(seq); });
}

void Inbox::drop_context(kv::SeqId seq) noexcept {
  try {
    change([&](Content& content) { content.dropped.push_back(seq); });
  } catch (const std::bad_alloc&) {
  }
}

bool Inbox::post_command(std::function<void()> command) {
  return change([&](Content& content) { content.commands.push_back(std::move(command)); });
}

void Inbox::report_fault(const std::string& what) {
  change([&](Content& content) { content.fault = what.empty() ? "unknown fault" : what; });
}

void Inbox::close() {
  change([&](Content& content) { content.closed = closed_ = true; });
}

Inbox::Content Inbox::take(Wait wait, bool idle) {
  std::unique_lock lock(mutex_);
  if (wait == Wait::kYes && content_.empty()) {
    if (idle) {
      idle_ = true;
      became_idle_.notify_all();
    }
    came_.wait(lock, [&] { return !content_.empty(); });
  }
  return std::exchange(content_, {});
}

void Inbox::wait_idle() {
  std::unique_lock lock(mutex_);
  became_idle_.wait(lock, [&] { return idle_ || closed_; });
}

}  // namespace kvern::engine
