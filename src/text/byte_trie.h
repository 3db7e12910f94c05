// A prefix tree over bytes. Children are found through one hash table, so that a vocabulary of
// 260,000 pieces costs one allocation.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvern::text {

class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNoNode = UINT32_MAX;

  // `expected_bytes`: about how many all texts have together.
  explicit ByteTrie(size_t expected_bytes);

  // A text inserted twice keeps the value of the last time.
  void insert(std::string_view text, int32_t value);

  uint32_t child(uint32_t node, uint8_t byte) const {
    const uint64_t key = uint64_t{node} << 8 | byte;
    for (size_t at = spread(key) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return slots_[at].node;
      if (slots_[at].key == kEmpty) return kNoNode;
    }
  }
  int32_t value(uint32_t node) const { return values_[node]; }  // -1: no text ends here

 private:
  struct Slot {
    uint64_t key = kEmpty;  // parent << 8 | byte
    uint32_t node = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  void resize(size_t num_slots);
  size_t free_slot(uint64_t key) const;
  static uint64_t spread(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::vector<int32_t> values_;
  int shift_ = 0;
};

}  // namespace kvern::text
