#include "apps/cli/interrupt.h"

#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "apps/cli/verb.h"

namespace kvern::cli {
namespace {

std::atomic<bool> seen{false};
std::mutex action_mutex;
std::function<void()> action_at_interrupt;
bool goes_on = false;  // after the action

// As the shell left it: an editor may hold the terminal when the process must end at once.
std::optional<termios> terminal_at_start() {
  termios settings{};
  if (::tcgetattr(STDIN_FILENO, &settings) != 0) return std::nullopt;
  return settings;
}
const std::optional<termios> kTerminal = terminal_at_start();

[[noreturn]] void end_at_once(int signal) {
  if (kTerminal) ::tcsetattr(STDIN_FILENO, TCSANOW, &*kTerminal);
  _exit(128 + signal);
}

void wait_for_signals(sigset_t signals) {
  std::chrono::steady_clock::time_point first;
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    {
      const std::lock_guard lock(action_mutex);
      if (goes_on && signal == SIGINT) {
        action_at_interrupt();
        continue;
      }
    }
    // timeout(1) signals the child and then its group: the same interrupt twice.
    const auto now = std::chrono::steady_clock::now();
    if (seen && now - first < std::chrono::milliseconds(250)) continue;
    if (seen.exchange(true)) end_at_once(signal);
    first = now;
    const std::lock_guard lock(action_mutex);
    if (!action_at_interrupt || (goes_on && signal == SIGTERM)) end_at_once(signal);
    action_at_interrupt();
  }
}

}  // namespace

void catch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for_signals, signals).detach();
}

bool interrupted() {
  return seen.load();
}

InterruptAction::InterruptAction(std::function<void()> action, After after) {
  const std::lock_guard lock(action_mutex);
  if (seen) action();
  outer_action_ = std::exchange(action_at_interrupt, std::move(action));
  outer_goes_on_ = std::exchange(goes_on, after == After::kGoOn);
}

InterruptAction::~InterruptAction() {
  const std::lock_guard lock(action_mutex);
  action_at_interrupt = std::move(outer_action_);
  goes_on = outer_goes_on_;
}

}  // namespace kvern::cli
