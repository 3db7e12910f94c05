#include "tests/cli/terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "tests/cli/process.h"

namespace kvern::cli_test {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Terminal::Terminal(const std::vector<std::string>& args) {
  setenv("XDG_CACHE_HOME", temp_path("cache").c_str(), 1);
  setenv("HOME", temp_folder().c_str(), 1);
  setenv("TERM", "xterm", 1);
  std::vector<std::string> words{KVERN_CLI_PATH};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  winsize size{};
  size.ws_col = 200;
  size.ws_row = 50;
  child_ = forkpty(&fd_, nullptr, nullptr, &size);
  if (child_ == 0) {
    execv(argv[0], argv.data());
    _exit(127);
  }
}

Terminal::~Terminal() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  if (fd_ >= 0) ::close(fd_);
}

void Terminal::type(const std::string& keys) {
  size_t sent = 0;
  while (sent < keys.size()) {
    const ssize_t written = ::write(fd_, keys.data() + sent, keys.size() - sent);
    if (written <= 0) return;
    sent += static_cast<size_t>(written);
  }
}

bool Terminal::read_some(double seconds) {
  pollfd end{fd_, POLLIN, 0};
  if (poll(&end, 1, static_cast<int>(seconds * 1000)) <= 0) return true;
  char buffer[4096];
  const ssize_t got = ::read(fd_, buffer, sizeof(buffer));
  if (got <= 0) return false;  // the child has gone
  screen_.append(buffer, static_cast<size_t>(got));
  return true;
}

bool Terminal::wait_for(const std::string& text, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool open = true;; open = open && read_some(0.05)) {
    const size_t at = screen_.find(text, seen_);
    if (at != std::string::npos) {
      seen_ = at + text.size();
      return true;
    }
    if (!open || seconds_since(begin) > seconds) return false;
  }
}

int Terminal::wait_exit(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (seconds_since(begin) > seconds) return -1;
    read_some(0.05);
  }
}

}  // namespace kvern::cli_test
