// What a damaged file may do to the command line: be refused, in words, quickly and cheaply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvern::cli_test {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit);

 private:
  uint64_t state_;
};

// Exit code 3, words (`word` among them), under 1 s, memory within what a small file justifies.
void expect_refused_in_bounds(const std::vector<std::string>& args, const std::string& word = "");

// The same bounds; exit code 0 or 3.
void expect_refused_or_fine(const std::vector<std::string>& args);

}  // namespace kvern::cli_test
