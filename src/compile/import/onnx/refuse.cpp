#include "compile/import/onnx/refuse.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvern/error.h"

namespace kvern::import::onnx {
namespace {

constexpr int64_t kMaxNodes = 2'000'000;
// int64 elements of one byte each become eight, strings of two bytes a std::string.
constexpr uint64_t kGrowth = 16;
constexpr uint64_t kNodeBytes = 512;

}  // namespace

void fail(const std::string& problem) {
  throw Error(Code::kInvalidModel, fmt::format("onnx: {}", problem));
}

void unsupported(const std::string& problem) {
  throw Error(Code::kUnsupported, fmt::format("onnx: {}", problem));
}

std::string shown(std::string_view name) {
  constexpr size_t kLongest = 120;
  std::string out(name.substr(0, kLongest));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name.size() > kLongest ? out + "…" : out;
}

void Budget::allow(uint64_t file_bytes) {
  left_bytes_ += std::min(file_bytes, uint64_t{1} << 44) * kGrowth;
}

void Budget::charge(uint64_t bytes) {
  if (bytes > left_bytes_) {
    unsupported(
        "the file asks for far more memory than its own size (empty messages, nested functions or "
        "packed elements multiply it); refused. Export without functions, or with raw data");
  }
  left_bytes_ -= bytes;
}

void Budget::charge_node() {
  if (++nodes_ > kMaxNodes) {
    unsupported(fmt::format("more than {} nodes once functions are inlined", kMaxNodes));
  }
  charge(kNodeBytes);
}

}  // namespace kvern::import::onnx
