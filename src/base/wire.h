// Little-endian bytes out and, checked, in again: the form of every binary section that Kvern
// writes. A reader never allocates more than the bytes that remain, and names what it was reading.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/fields.h"
#include "kvern/error.h"

namespace kvern {

static_assert(std::endian::native == std::endian::little,
              "Kvern supports little-endian hosts only");

class WireWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void string(std::string_view value) {
    number<uint32_t>(static_cast<uint32_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void fields(const std::vector<NamedField>& fields);
  template <Described T>
  void object(const T& value) {
    fields(to_fields(value));
  }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

class WireReader {
 public:
  // `what` names the bytes in messages ("plan 'x.plan', section 'program'"); `code` is their kind.
  WireReader(std::span<const std::byte> bytes, std::string what, Code code = Code::kInvalidPlan)
      : bytes_(bytes), what_(std::move(what)), code_(code) {}

  template <class T>
  requires std::is_arithmetic_v<T> T number(std::string_view name) {
    T value;
    std::memcpy(&value, take(sizeof(T), name), sizeof(T));
    return value;
  }
  std::string string(std::string_view name);
  // A count of items that take at least `min_item_bytes` each: refused when they cannot all be
  // there, or are more than `max_count`. Items larger in memory than in the file are best added to
  // their vector as they are read: a count that lies then costs no more than the bytes that are
  // there.
  uint32_t count(size_t min_item_bytes, std::string_view name, uint32_t max_count = UINT32_MAX);
  // At most 64, no number twice: what a Desc of ours never exceeds.
  std::vector<NamedField> fields(std::string_view name);
  template <Described T>
  T object(std::string_view name) {
    return from_fields<T>(fields(name));
  }
  std::span<const std::byte> bytes(uint64_t size, std::string_view name) {
    const std::byte* data = take(size, name);
    return {data, static_cast<size_t>(size)};
  }
  size_t remaining() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }
  // Throws unless every byte was read.
  void expect_end();
  [[noreturn]] void fail(std::string_view name, std::string_view problem) const;

 private:
  const std::byte* take(uint64_t size, std::string_view name);

  std::span<const std::byte> bytes_;
  std::string what_;
  Code code_;
  size_t at_ = 0;
};

}  // namespace kvern
