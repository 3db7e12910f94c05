// Finds the id of a token's text. Owns the texts of all tokens in one string.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::text {

// Which of two tokens with one text is found.
enum class Duplicates : uint8_t { kFirst, kLast };

class TokenTable {
 public:
  TokenTable(std::span<const std::string> tokens, Duplicates duplicates);

  int32_t find(std::string_view text) const;  // -1: no token
  std::string_view text(int32_t id) const {
    return std::string_view(bytes_).substr(starts_[id], starts_[id + 1] - starts_[id]);
  }
  int32_t size() const { return static_cast<int32_t>(starts_.size()) - 1; }

 private:
  size_t slot_of(std::string_view text) const;

  std::string bytes_;
  std::vector<size_t> starts_;  // [tokens + 1]
  // Open addressing, a power of two of slots, at most half full; -1: empty.
  std::vector<int32_t> slots_;
};

}  // namespace kvern::text
