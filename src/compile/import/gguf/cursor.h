// A checked walk over the bytes of a GGUF file. Nothing it hands out lies outside the file, and no
// count is believed before the bytes that it asks for are known to be there.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace kvern::import::gguf {

// Names from a file as a message may show them: short, without control characters.
std::string shown(std::string_view name);

// Throws Error(kInvalidModel): "gguf: file 'x.gguf': <problem>".
[[noreturn]] void fail(const std::string& file, const std::string& problem);
// Throws Error(kUnsupported) in the same form.
[[noreturn]] void unsupported(const std::string& file, const std::string& problem);

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string file)
      : bytes_(bytes), file_(std::move(file)) {}

  template <class T>
  T number(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  // A u64 length and that many bytes.
  std::string_view string(const char* what);
  void skip(uint64_t count, uint64_t bytes_each, const char* what);
  // A u64 count of things that take at least `min_bytes` each: refused when the rest of the file
  // cannot hold them.
  uint64_t count(uint64_t min_bytes, const char* what);

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  const std::string& file() const { return file_; }

 private:
  void need(uint64_t bytes, const char* what) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  uint64_t position_ = 0;
};

}  // namespace kvern::import::gguf
