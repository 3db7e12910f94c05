#include "apps/cli/output.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "apps/cli/interrupt.h"
#include "kvern/error.h"

namespace kvern::cli {
namespace {

void write_stderr(const std::string& text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nowhere left to say so
}

struct ProgressState {
  std::string what;
  std::string phase;
  int percent = -1;
  bool terminal = ::isatty(STDERR_FILENO) != 0;
};

}  // namespace

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {  // somebody made the terminal non-blocking
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (errno == EPIPE) throw ClosedPipe{};
    throw Error(Code::kIo, std::string("cannot write to standard output: ") + std::strerror(errno));
  }
}

void print_error(std::string_view message) {
  write_stderr("kvern: " + std::string(message) + "\n");
}

void print_note(std::string_view message) {
  write_stderr(std::string(message) + "\n");
}

std::string show_bytes(uint64_t bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

uint64_t peak_memory_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void progress_quietly(const Progress&) {
  if (interrupted()) throw Interrupted{};
}

ProgressFn progress_line(const std::string& what) {
  auto state = std::make_shared<ProgressState>();
  state->what = what;
  return [state](const Progress& progress) {
    if (interrupted()) throw Interrupted{};
    const bool new_phase = state->phase != progress.phase;
    const int percent = progress.total_bytes == 0
                            ? 0
                            : static_cast<int>(progress.done_bytes * 100 / progress.total_bytes);
    if (!new_phase && percent == state->percent) return;
    if (!state->terminal && !new_phase) return;
    state->phase = progress.phase;
    state->percent = percent;
    std::string line = state->what + ": " + state->phase;
    // These count tokens and nodes.
    const bool is_bytes = progress.phase != "proving" && progress.phase != "converting";
    if (is_bytes && progress.total_bytes > 0) line += ", " + show_bytes(progress.total_bytes);
    if (state->terminal) {
      line = "\r" + line + ", " + std::to_string(percent) + " %\x1b[K";
      // Each phase keeps its line.
      if (progress.done_bytes == progress.total_bytes) line += "\n";
      write_stderr(line);
    } else {
      write_stderr(line + "\n");
    }
  };
}

}  // namespace kvern::cli
