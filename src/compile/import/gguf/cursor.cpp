#include "compile/import/gguf/cursor.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "kvern/error.h"

namespace kvern::import::gguf {

std::string shown(std::string_view name) {
  constexpr size_t kMaxShown = 80;
  std::string out;
  for (const char c : name.substr(0, kMaxShown)) out += c >= 0x20 && c < 0x7f ? c : '?';
  if (name.size() > kMaxShown) out += "...";
  return out;
}

void fail(const std::string& file, const std::string& problem) {
  throw Error(Code::kInvalidModel, fmt::format("gguf: file '{}': {}", file, problem));
}

void unsupported(const std::string& file, const std::string& problem) {
  throw Error(Code::kUnsupported, fmt::format("gguf: file '{}': {}", file, problem));
}

std::string_view Cursor::string(const char* what) {
  const auto length = number<uint64_t>(what);
  need(length, what);
  const auto* text = reinterpret_cast<const char*>(bytes_.data() + position_);
  position_ += length;
  return {text, static_cast<size_t>(length)};
}

void Cursor::skip(uint64_t count, uint64_t bytes_each, const char* what) {
  const auto bytes = checked_mul(count, bytes_each);
  if (!bytes) fail(file_, fmt::format("{} at byte {}: a count of {}", what, position_, count));
  need(*bytes, what);
  position_ += *bytes;
}

uint64_t Cursor::count(uint64_t min_bytes, const char* what) {
  const uint64_t at = position_;
  const auto value = number<uint64_t>(what);
  if (value > remaining() / min_bytes) {
    fail(file_, fmt::format("{} at byte {} is {}, but the {} bytes that follow hold at most {}; "
                            "the file is cut short or damaged, fetch it again",
                            what, at, value, remaining(), remaining() / min_bytes));
  }
  return value;
}

void Cursor::need(uint64_t bytes, const char* what) const {
  if (bytes <= remaining()) return;
  fail(file_, fmt::format("{} at byte {} needs {} bytes, {} remain; the file is cut short or "
                          "damaged, fetch it again",
                          what, position_, bytes, remaining()));
}

}  // namespace kvern::import::gguf
