// How the ONNX importer says no.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvern::import::onnx {

// Throws Error(kInvalidModel): "onnx: <problem>".
[[noreturn]] void fail(const std::string& problem);
// Throws Error(kUnsupported) in the same form.
[[noreturn]] void unsupported(const std::string& problem);

// A name of the file as a message or a terminal may have it: short, without control characters.
std::string shown(std::string_view name);

// Memory that a file may ask for, in proportion to its bytes: functions that call functions and
// elements of a few bits would else make gigabytes of a few lines.
class Budget {
 public:
  explicit Budget(uint64_t file_bytes) { allow(file_bytes); }
  void allow(uint64_t file_bytes);
  // Throws Error(kUnsupported) when the file has asked for more than it may.
  void charge(uint64_t bytes);
  void charge_node();

 private:
  uint64_t left_bytes_ = 64 << 20;
  int64_t nodes_ = 0;
};

}  // namespace kvern::import::onnx
