#include "compile/import/onnx/wire.h"

#include <fmt/format.h>

#include "compile/import/onnx/refuse.h"

namespace kvern::import::onnx {
namespace {

constexpr int kMaxVarintBytes = 10;

// The value at the start of `bytes`, whose length comes back; 0: cut short or too long.
int read_varint(std::span<const std::byte> bytes, uint64_t& value) {
  value = 0;
  for (int i = 0; i < kMaxVarintBytes && static_cast<size_t>(i) < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return i + 1;
  }
  return 0;
}

}  // namespace

bool next_packed_varint(std::span<const std::byte>& bytes, uint64_t& value) {
  if (bytes.empty()) return false;
  const int length = read_varint(bytes, value);
  if (length == 0) fail("a packed list of integers is cut short");
  bytes = bytes.subspan(static_cast<size_t>(length));
  return true;
}

void append_varint(std::string& to, uint64_t value) {
  while (value >= 0x80) {
    to.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  to.push_back(static_cast<char>(value));
}

void WireCursor::damaged(const std::string& problem) const {
  fail(fmt::format("file '{}': byte {}: {}; the file is damaged or cut short", file_, offset_,
                   problem));
}

uint64_t WireCursor::varint() {
  uint64_t value = 0;
  const int length = read_varint(bytes_, value);
  if (length == 0) damaged("a number is cut short");
  take(static_cast<uint64_t>(length), "");
  return value;
}

std::span<const std::byte> WireCursor::take(uint64_t length, const char* what) {
  if (length > bytes_.size()) {
    damaged(fmt::format("{} of {} bytes where {} are left", what, length, bytes_.size()));
  }
  const auto out = bytes_.first(length);
  bytes_ = bytes_.subspan(length);
  offset_ += length;
  return out;
}

bool WireCursor::next(WireField& field) {
  if (bytes_.empty()) return false;
  const uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 3 >= (uint64_t{1} << 29)) damaged("a field of no possible number");
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  field.offset = offset_;
  switch (field.type) {
    case WireType::kVarint:
      field.varint = varint();
      return true;
    case WireType::kFixed64:
      field.bytes = take(8, "a number");
      return true;
    case WireType::kFixed32:
      field.bytes = take(4, "a number");
      return true;
    case WireType::kLength: {
      const uint64_t length = varint();
      field.offset = offset_;
      field.bytes = take(length, "a field");
      return true;
    }
  }
  damaged("a field of no known kind");
}

}  // namespace kvern::import::onnx
