// Protobuf's wire format, one field at a time, without allocation.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvern::import::onnx {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;               // of kVarint
  std::span<const std::byte> bytes;  // of the other types
  uint64_t offset = 0;               // of `bytes`, from the start of the file
};

// Reads the fields of one message. Throws Error(kInvalidModel) naming file and byte for what is cut
// short, for groups and for malformed tags.
class WireCursor {
 public:
  WireCursor(std::span<const std::byte> message, uint64_t offset, const std::string& file)
      : bytes_(message), offset_(offset), file_(file) {}

  bool next(WireField& field);  // false at the end of the message

 private:
  uint64_t varint();
  std::span<const std::byte> take(uint64_t length, const char* what);
  [[noreturn]] void damaged(const std::string& problem) const;

  std::span<const std::byte> bytes_;  // what is left
  uint64_t offset_;                   // of its first byte
  const std::string& file_;
};

// Varints of a packed field, one after the other; false at the end. Throws when one is cut short.
bool next_packed_varint(std::span<const std::byte>& bytes, uint64_t& value);

void append_varint(std::string& to, uint64_t value);

}  // namespace kvern::import::onnx
