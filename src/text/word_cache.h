// Remembers the words of one encode() call: text repeats its words, and copying ids is several
// times cheaper than merging. Entries point into the call's own text and ids, so that nothing is
// copied or allocated per word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace kvern::text {

class WordCache {
 public:
  // Direct-mapped; 8,192 entries (200 KB, half an L2) at most, fewer for short texts.
  explicit WordCache(size_t text_bytes)
      : entries_(std::bit_ceil(std::clamp<size_t>(text_bytes / 4, 16, 8192))) {}

  struct Entry {
    const char* word = nullptr;
    uint32_t word_bytes = 0;
    uint32_t num_ids = 0;
    size_t first_id = 0;  // in the ids made so far

    bool holds(std::string_view other) const {
      return word_bytes == other.size() && std::memcmp(word, other.data(), other.size()) == 0;
    }
  };
  // The one entry where `word` may be; holds() tells.
  Entry& at(std::string_view word) { return entries_[hash(word) & (entries_.size() - 1)]; }

 private:
  static uint64_t hash(std::string_view word) {
    uint64_t sum = word.size();
    const char* data = word.data();
    size_t left = word.size();
    for (; left >= 8; left -= 8, data += 8) sum = mix(sum, data, 8);
    if (left > 0) sum = mix(sum, data, left);
    return sum ^ sum >> 29;
  }
  static uint64_t mix(uint64_t sum, const char* data, size_t size) {
    uint64_t part = 0;
    std::memcpy(&part, data, size);
    sum = (sum ^ part) * 0x9E3779B97F4A7C15u;
    return sum ^ sum >> 32;
  }

  std::vector<Entry> entries_;
};

}  // namespace kvern::text
