// Ctrl-C and SIGTERM: the first one ends the work in hand and keeps what it made, the second ends
// the process at once.
#pragma once

#include <functional>

namespace kvern::cli {

// Thrown by work that found interrupted() true.
struct Interrupted {};

// Must be called before any thread is made. From then on both signals are taken by one thread.
void catch_interrupts();
bool interrupted();

// While one lives, an interrupt calls `action` (at once where it came before) and the work goes on
// to its own end. With none alive, an interrupt ends the process: nothing would be lost. Of several
// the youngest counts; they end in the reverse order.
class InterruptAction {
 public:
  // kGoOn: the program goes on afterwards as if nothing had come, and further Ctrl-C calls the
  // action again; SIGTERM still ends the process.
  enum class After { kEnd, kGoOn };
  explicit InterruptAction(std::function<void()> action, After after = After::kEnd);
  ~InterruptAction();
  InterruptAction(const InterruptAction&) = delete;
  InterruptAction& operator=(const InterruptAction&) = delete;

 private:
  std::function<void()> outer_action_;
  bool outer_goes_on_ = false;
};

}  // namespace kvern::cli
