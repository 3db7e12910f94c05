// A child on a pseudo-terminal: what a person types, and what the screen brought so far.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace kvern::cli_test {

class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& args);
  ~Terminal();  // kills what still runs
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  // Waits until `text` comes after what earlier calls waited for; false after `seconds`.
  bool wait_for(const std::string& text, double seconds = 60);
  // 128 + signal where one ended it; -1 when it still runs after `seconds`.
  int wait_exit(double seconds = 60);
  const std::string& screen() const { return screen_; }  // all of it, control codes included

 private:
  bool read_some(double seconds);

  int fd_ = -1;
  pid_t child_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

}  // namespace kvern::cli_test
