#include "tests/cli/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kvern::cli_test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // the shadow alone takes 16 TB of address space
#else
constexpr bool kSanitized = false;
#endif

// Before any test may set it for itself.
[[maybe_unused]] const bool kForgotUsersCache = ::unsetenv("KVERN_CACHE") == 0;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvern_cli_XXXXXX").string();
    path_ = mkdtemp(pattern.data()) != nullptr ? pattern : std::string();
  }
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) read = ends[0], write = ends[1];
  }
};

void close_end(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

[[noreturn]] void become(const Command& command, const std::vector<char*>& argv, int in, int out,
                         int err) {
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (command.memory_limit_bytes > 0 && !kSanitized) {
    const auto bytes = static_cast<rlim_t>(command.memory_limit_bytes);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  signal(SIGPIPE, SIG_DFL);
  execv(argv[0], argv.data());
  _exit(127);
}

// Reads both outputs until they end, acting on the command's thresholds.
void collect(const Command& command, pid_t child, int& out, int& err, Outcome& outcome) {
  const auto begin = std::chrono::steady_clock::now();
  bool interrupted = false;
  while (out >= 0 || err >= 0) {
    pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    poll(ends, 2, 50);
    const double passed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (passed > command.timeout_s && !outcome.timed_out) {
      outcome.timed_out = true;
      kill(child, SIGKILL);
    }
    int* fds[2] = {&out, &err};
    std::string* texts[2] = {&outcome.out, &outcome.err};
    for (int i = 0; i < 2; ++i) {
      if (*fds[i] < 0 || ends[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t got = ::read(*fds[i], buffer, sizeof(buffer));
      if (got <= 0) close_end(*fds[i]);
      if (got > 0) texts[i]->append(buffer, static_cast<size_t>(got));
    }
    const int brought = static_cast<int>(outcome.out.size());
    const bool enough =
        command.interrupt_after_output_bytes >= 0 && brought > command.interrupt_after_output_bytes;
    const bool late = command.interrupt_after_s >= 0 && passed > command.interrupt_after_s;
    if (!interrupted && (enough || late)) {
      interrupted = true;
      kill(child, SIGINT);
    }
    if (command.close_after_output_bytes >= 0 && brought > command.close_after_output_bytes) {
      close_end(out);
    }
  }
}

int open_input(const Command& command) {
  if (command.input.empty()) return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::string path = temp_path("stdin");
  write_file(path, command.input);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

Outcome run(const Command& command) {
  // Children must not write into the cache of whoever runs the tests.
  setenv("XDG_CACHE_HOME", temp_path("cache").c_str(), 1);
  setenv("HOME", temp_folder().c_str(), 1);

  std::vector<std::string> words{command.program.empty() ? KVERN_CLI_PATH : command.program};
  words.insert(words.end(), command.args.begin(), command.args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe out, err;
  int in = open_input(command);
  if (!command.stdout_path.empty()) {
    close_end(out.write);
    out.write = ::open(command.stdout_path.c_str(), O_WRONLY | O_CLOEXEC);
  }
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) become(command, argv, in, out.write, err.write);
  close_end(in);
  close_end(out.write);
  close_end(err.write);

  Outcome outcome;
  collect(command, child, out.read, err.read, outcome);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.peak_rss_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  return outcome;
}

const std::string& temp_folder() {
  static const TempFolder folder;
  return folder.path();
}

std::string temp_path(const std::string& name) {
  return temp_folder() + "/" + name;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string small_model_path() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  const std::string path = given != nullptr ? given
                                            : KVERN_TEST_DATA
                               "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : std::string();
}

}  // namespace kvern::cli_test
