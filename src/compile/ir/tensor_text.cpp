#include "compile/ir/tensor_text.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "kvern/error.h"
#include "tensor/float_bits.h"

namespace kvern::ir {
namespace {

// How the elements of a type are kept; everything that is no float is an integer code.
enum class Kept { kF32, kF64, kF16, kBf16, kInteger, kOther };

Kept kept_as(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return Kept::kF32;
    case ElementType::kDouble:
      return Kept::kF64;
    case ElementType::kFloat16:
      return Kept::kF16;
    case ElementType::kBfloat16:
      return Kept::kBf16;
    case ElementType::kComplex64:
    case ElementType::kComplex128:
    case ElementType::kSymbol:
    case ElementType::kString:
    case ElementType::kUndefined:
      return Kept::kOther;
    default:
      return Kept::kInteger;
  }
}

bool is_signed_integer(ElementType type) {
  return type == ElementType::kInt8 || type == ElementType::kInt16 || type == ElementType::kInt32 ||
         type == ElementType::kInt64 || type == ElementType::kInt4;
}

// The integer of `bytes` bytes at `at`, widened; uint64 above the largest int64 prints as negative.
int64_t read_integer(const std::byte* at, size_t bytes, bool is_signed) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, bytes);  // little endian
  if (bytes == 8 || !is_signed) return static_cast<int64_t>(bits);
  const unsigned shift = 64 - 8 * static_cast<unsigned>(bytes);
  return static_cast<int64_t>(bits << shift) >> shift;
}

std::string print_element(const Array& array, int64_t index) {
  const size_t size = element_bytes(array.type());
  const std::byte* at = array.bytes().data() + static_cast<size_t>(index) * size;
  uint16_t half = 0;
  switch (kept_as(array.type())) {
    case Kept::kF32: {
      float value = 0;
      std::memcpy(&value, at, sizeof(value));
      return fmt::format("{}", value);
    }
    case Kept::kF64: {
      double value = 0;
      std::memcpy(&value, at, sizeof(value));
      return fmt::format("{}", value);
    }
    case Kept::kF16:
      std::memcpy(&half, at, 2);
      return fmt::format("{}", f16_to_f32(half));
    case Kept::kBf16:
      std::memcpy(&half, at, 2);
      return fmt::format("{}", bf16_to_f32(half));
    case Kept::kInteger:
      return fmt::format("{}", read_integer(at, size, is_signed_integer(array.type())));
    case Kept::kOther:
      break;
  }
  throw Error(Code::kUnsupported, fmt::format("tensor graph text: arrays of {} have no text form",
                                              element_type_name(array.type())));
}

bool all_equal(const Array& array) {
  const size_t size = element_bytes(array.type());
  const std::span<const std::byte> bytes = array.bytes();
  for (size_t at = size; at < bytes.size(); at += size) {
    if (std::memcmp(bytes.data(), bytes.data() + at, size) != 0) return false;
  }
  return true;
}

void parse_element(TextCursor& cursor, Array& array, std::byte* at) {
  const size_t size = element_bytes(array.type());
  const Kept kept = kept_as(array.type());
  if (kept == Kept::kInteger) {
    const size_t position = cursor.position();
    const int64_t value = cursor.integer();
    std::memcpy(at, &value, size);
    if (read_integer(at, size, is_signed_integer(array.type())) != value) {
      cursor.fail_at(
          position, fmt::format("{} does not fit into {}", value, element_type_name(array.type())));
    }
    return;
  }
  const double value = cursor.real();
  const auto narrow = static_cast<float>(value);
  const uint16_t half = kept == Kept::kF16 ? f32_to_f16(narrow) : f32_to_bf16(narrow);
  if (kept == Kept::kF64) {
    std::memcpy(at, &value, size);
  } else if (kept == Kept::kF32) {
    std::memcpy(at, &narrow, size);
  } else {
    std::memcpy(at, &half, size);
  }
}

void parse_elements(TextCursor& cursor, Array& array) {
  const size_t size = element_bytes(array.type());
  const std::span<std::byte> bytes = array.mutable_bytes();
  if (cursor.peek() == '"') cursor.fail("the elements of this array were left out when printed");
  if (!cursor.accept('{')) {  // one value for all
    std::byte first[24];
    parse_element(cursor, array, first);
    for (size_t at = 0; at < bytes.size(); at += size) std::memcpy(bytes.data() + at, first, size);
    return;
  }
  for (size_t at = 0; at < bytes.size(); at += size) {
    if (at > 0) cursor.expect(',');
    parse_element(cursor, array, bytes.data() + at);
  }
  cursor.expect('}');
}

}  // namespace

std::string print_elements(const Array& array) {
  if (array.count() > 4 && all_equal(array)) return print_element(array, 0);
  if (array.count() > kMaxPrintedElements) return "\"...\"";
  std::string out = "{";
  for (int64_t i = 0; i < array.count(); ++i) {
    if (i > 0) out += ", ";
    out += print_element(array, i);
  }
  return out + "}";
}

std::string print_array(const Array& array) {
  return fmt::format("{}{} = {}", element_type_name(array.type()), to_string(array.shape()),
                     print_elements(array));
}

ElementType parse_element_type(TextCursor& cursor) {
  const size_t position = cursor.position();
  const std::string_view word = cursor.word();
  const auto type = element_type_from_name(word);
  if (!type) cursor.fail_at(position, fmt::format("'{}' is no element type", word));
  return *type;
}

Array parse_array(TextCursor& cursor) {
  const size_t position = cursor.position();
  const ElementType type = parse_element_type(cursor);
  if (kept_as(type) == Kept::kOther) {
    cursor.fail_at(position,
                   fmt::format("arrays of {} have no text form", element_type_name(type)));
  }
  Shape shape;
  cursor.expect('[');
  while (!cursor.accept(']')) {
    if (!shape.empty()) cursor.expect(',');
    shape.push_back(cursor.integer());
  }
  cursor.expect('=');
  Array out(type, std::move(shape));
  parse_elements(cursor, out);
  return out;
}

}  // namespace kvern::ir
