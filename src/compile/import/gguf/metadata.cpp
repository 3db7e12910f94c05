#include "compile/import/gguf/metadata.h"

#include <fmt/format.h>

namespace kvern::import::gguf {
namespace {

struct ValueTypeInfo {
  const char* name;
  uint64_t bytes;  // 0: of varying size
};
constexpr ValueTypeInfo kValueTypes[kNumValueTypes] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

const ValueTypeInfo& info(ValueType type) {
  return kValueTypes[static_cast<uint32_t>(type)];
}

ValueType read_type(Cursor& cursor, std::string_view key) {
  const auto number = cursor.number<uint32_t>("the type of a metadata value");
  if (number >= kNumValueTypes) {
    fail(cursor.file(), fmt::format("metadata '{}' has value type {}; 0 to {} are defined",
                                    shown(key), number, kNumValueTypes - 1));
  }
  return static_cast<ValueType>(number);
}

void skip_values(Cursor& cursor, ValueType type, uint64_t length) {
  if (type == ValueType::kString) {
    for (uint64_t i = 0; i < length; ++i) cursor.string("a metadata string");
  } else {
    cursor.skip(length, info(type).bytes, "a metadata value");
  }
}

// An integer of any width; nothing for other types and for u64 beyond int64.
std::optional<int64_t> read_integer(Cursor& at, ValueType type) {
  constexpr const char* kWhat = "a metadata value";
  switch (type) {
    case ValueType::kU8:
      return at.number<uint8_t>(kWhat);
    case ValueType::kI8:
      return at.number<int8_t>(kWhat);
    case ValueType::kU16:
      return at.number<uint16_t>(kWhat);
    case ValueType::kI16:
      return at.number<int16_t>(kWhat);
    case ValueType::kU32:
      return at.number<uint32_t>(kWhat);
    case ValueType::kI32:
      return at.number<int32_t>(kWhat);
    case ValueType::kI64:
      return at.number<int64_t>(kWhat);
    case ValueType::kU64: {
      const auto value = at.number<uint64_t>(kWhat);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

Metadata::Metadata(Cursor& cursor, std::span<const std::byte> bytes, uint64_t count)
    : bytes_(bytes), file_(cursor.file()) {
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.string("a metadata key");
    if (key.empty()) fail(file_, fmt::format("metadata entry {} has an empty key", i));
    Entry entry;
    entry.type = read_type(cursor, key);
    if (entry.type == ValueType::kArray) {
      entry.element = read_type(cursor, key);
      if (entry.element == ValueType::kArray) {
        unsupported(file_, fmt::format("metadata '{}' is an array of arrays", shown(key)));
      }
      const uint64_t element_bytes = info(entry.element).bytes;
      entry.length = cursor.count(element_bytes == 0 ? 8 : element_bytes, "an array's length");
    }
    entry.offset = cursor.position();
    skip_values(cursor, entry.type == ValueType::kArray ? entry.element : entry.type, entry.length);
    if (!entries_.emplace(key, entry).second) {
      fail(file_, fmt::format("metadata '{}' is given twice; one of them is wrong", shown(key)));
    }
    keys_.emplace_back(key);
  }
}

const Metadata::Entry* Metadata::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void Metadata::wrong_type(const std::string& key, const Entry& entry, const char* wanted) const {
  const bool array = entry.type == ValueType::kArray;
  fail(file_, fmt::format("metadata '{}' must be {}, but the file has {}{}; convert the model "
                          "again",
                          key, wanted, array ? "an array of " : "",
                          info(array ? entry.element : entry.type).name));
}

void Metadata::missing(const std::string& key) const {
  fail(file_, fmt::format("metadata '{}' is missing; convert the model again", key));
}

std::optional<uint64_t> Metadata::find_count(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  Cursor at(bytes_.subspan(entry->offset), file_);
  const std::optional<int64_t> value = read_integer(at, entry->type);
  if (!value || *value < 0) wrong_type(key, *entry, "an integer from 0 to 2^63 - 1");
  return static_cast<uint64_t>(*value);
}

std::optional<double> Metadata::find_real(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  Cursor at(bytes_.subspan(entry->offset), file_);
  if (entry->type == ValueType::kF32) return at.number<float>("a metadata value");
  if (entry->type == ValueType::kF64) return at.number<double>("a metadata value");
  wrong_type(key, *entry, "a floating-point number");
}

std::optional<bool> Metadata::find_bool(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::kBool) wrong_type(key, *entry, "a bool");
  const auto value = static_cast<uint8_t>(bytes_[entry->offset]);
  if (value > 1) fail(file_, fmt::format("metadata '{}': a bool is 0 or 1, not {}", key, value));
  return value == 1;
}

std::optional<std::string_view> Metadata::find_string(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::kString) wrong_type(key, *entry, "a string");
  return Cursor(bytes_.subspan(entry->offset), file_).string("a metadata string");
}

std::optional<std::vector<std::string>> Metadata::find_strings(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::kArray || entry->element != ValueType::kString) {
    wrong_type(key, *entry, "an array of strings");
  }
  Cursor at(bytes_.subspan(entry->offset), file_);
  std::vector<std::string> out;
  out.reserve(entry->length);
  for (uint64_t i = 0; i < entry->length; ++i) out.emplace_back(at.string("a metadata string"));
  return out;
}

std::optional<std::vector<int64_t>> Metadata::find_integers(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::kArray) wrong_type(key, *entry, "an array of integers");
  Cursor at(bytes_.subspan(entry->offset), file_);
  std::vector<int64_t> out;
  out.reserve(entry->length);
  for (uint64_t i = 0; i < entry->length; ++i) {
    const std::optional<int64_t> value = read_integer(at, entry->element);
    if (!value) wrong_type(key, *entry, "an array of integers");
    out.push_back(*value);
  }
  return out;
}

std::optional<std::vector<float>> Metadata::find_floats(const std::string& key) const {
  const Entry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (entry->type != ValueType::kArray || entry->element != ValueType::kF32) {
    wrong_type(key, *entry, "an array of 32-bit floating-point numbers");
  }
  Cursor at(bytes_.subspan(entry->offset), file_);
  std::vector<float> out;
  out.reserve(entry->length);
  for (uint64_t i = 0; i < entry->length; ++i) out.push_back(at.number<float>("a metadata value"));
  return out;
}

uint64_t Metadata::count(const std::string& key) const {
  const auto value = find_count(key);
  if (!value) missing(key);
  return *value;
}

double Metadata::real(const std::string& key) const {
  const auto value = find_real(key);
  if (!value) missing(key);
  return *value;
}

std::string_view Metadata::string(const std::string& key) const {
  const auto value = find_string(key);
  if (!value) missing(key);
  return *value;
}

}  // namespace kvern::import::gguf
