// Runs the built command line as a child: arguments, standard input, limits and signals in, exit
// code, output and peak memory out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvern::cli_test {

struct Command {
  std::vector<std::string> args;          // without the program itself
  std::string input = {};                 // standard input; empty: /dev/null
  std::string stdout_path = {};           // instead of a pipe, e.g. /dev/full
  int64_t memory_limit_bytes = 0;         // address space; 0: none. Ignored under sanitizers.
  int interrupt_after_output_bytes = -1;  // SIGINT once standard output has brought this much
  double interrupt_after_s = -1;          // or SIGINT at this time
  int close_after_output_bytes = -1;      // close our end of standard output at this point
  double timeout_s = 120;
  std::string program = {};  // empty: the kvern of this build
};

struct Outcome {
  int exit_code = -1;  // 128 + signal for a child that a signal ended
  bool timed_out = false;
  std::string out;
  std::string err;
  double seconds = 0;
  int64_t peak_rss_bytes = 0;
};

// Children see XDG_CACHE_HOME and HOME inside temp_folder(), so that no run meets a user's cache.
Outcome run(const Command& command);
inline Outcome run(std::vector<std::string> args) {
  return run(Command{.args = std::move(args)});
}

// A folder of this test process, removed at its end.
const std::string& temp_folder();
std::string temp_path(const std::string& name);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

// The small real model (KVERN_SMOLLM2, or where scripts/fetch_model puts it); empty when absent.
std::string small_model_path();

}  // namespace kvern::cli_test
