// The key-value part of a GGUF file. Values stay in the mapping; every accessor checks the type
// that the file declares, so that nothing is read as something else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compile/import/gguf/cursor.h"

namespace kvern::import::gguf {

// Numbers of the file format.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kNumValueTypes = 13;

class Metadata {
 public:
  Metadata() = default;
  // Reads `count` entries at the cursor. `bytes`: the whole file, which must outlive this.
  Metadata(Cursor& cursor, std::span<const std::byte> bytes, uint64_t count);

  bool has(const std::string& key) const { return entries_.contains(key); }
  // In the order of the file.
  const std::vector<std::string>& keys() const { return keys_; }

  // Absent keys give nothing; a key of another type, or a negative number where a count is wanted,
  // throws Error(kInvalidModel).
  std::optional<uint64_t> find_count(const std::string& key) const;
  std::optional<double> find_real(const std::string& key) const;
  std::optional<bool> find_bool(const std::string& key) const;
  std::optional<std::string_view> find_string(const std::string& key) const;
  std::optional<std::vector<std::string>> find_strings(const std::string& key) const;
  std::optional<std::vector<int64_t>> find_integers(const std::string& key) const;
  std::optional<std::vector<float>> find_floats(const std::string& key) const;

  // The same for keys that must be there.
  uint64_t count(const std::string& key) const;
  double real(const std::string& key) const;
  std::string_view string(const std::string& key) const;

 private:
  struct Entry {
    ValueType type = ValueType::kU8;
    ValueType element = ValueType::kU8;  // arrays
    uint64_t length = 1;                 // arrays
    uint64_t offset = 0;                 // of the value, or of an array's first element
  };

  const Entry* find(const std::string& key) const;
  [[noreturn]] void wrong_type(const std::string& key, const Entry& entry,
                               const char* wanted) const;
  [[noreturn]] void missing(const std::string& key) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace kvern::import::gguf
