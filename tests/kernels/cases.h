// Reads tests/ops/<family>.cases: one case per line as `key=value key=value`, `#` starts a comment.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvern::testing {

class Case {
 public:
  explicit Case(const std::string& line) : line_(line) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error("no '=' in case: " + line);
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  // The line itself, for SCOPED_TRACE.
  const std::string& line() const { return line_; }
  bool has(const std::string& key) const { return values_.count(key) != 0; }
  std::string text(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) throw std::runtime_error("no '" + key + "' in case: " + line_);
    return found->second;
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return has(key) ? text(key) : otherwise;
  }
  int64_t integer(const std::string& key) const { return std::stoll(text(key)); }
  int64_t integer(const std::string& key, int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double real(const std::string& key, double otherwise) const {
    return has(key) ? std::stod(text(key)) : otherwise;
  }
  // "rows=1,2,17" -> {1, 2, 17}
  std::vector<int64_t> integers(const std::string& key) const {
    std::vector<int64_t> out;
    std::istringstream parts(text(key));
    for (std::string part; std::getline(parts, part, ',');) out.push_back(std::stoll(part));
    return out;
  }

 private:
  std::string line_;
  std::map<std::string, std::string> values_;
};

// Every case of the file; a missing or empty file fails the test that reads it.
inline std::vector<Case> read_cases(const std::string& family) {
  const std::string path = std::string(KVERN_TEST_DATA) + "/ops/" + family + ".cases";
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t") != std::string::npos) cases.emplace_back(line);
  }
  EXPECT_FALSE(cases.empty()) << path << " has no case";
  return cases;
}

}  // namespace kvern::testing
