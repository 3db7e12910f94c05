#include "text/byte_trie.h"

#include <bit>

namespace kvern::text {

ByteTrie::ByteTrie(size_t expected_bytes) : values_{-1} {
  resize(std::bit_ceil(2 * expected_bytes + 2));
}

void ByteTrie::resize(size_t num_slots) {
  std::vector<Slot> old(num_slots);
  old.swap(slots_);
  shift_ = 64 - std::countr_zero(num_slots);
  for (const Slot& slot : old) {
    if (slot.key != kEmpty) slots_[free_slot(slot.key)] = slot;
  }
}

size_t ByteTrie::free_slot(uint64_t key) const {
  size_t at = spread(key) >> shift_;
  while (slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void ByteTrie::insert(std::string_view text, int32_t value) {
  uint32_t node = kRoot;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const uint32_t next = child(node, byte);
    if (next != kNoNode) {
      node = next;
      continue;
    }
    const uint64_t key = uint64_t{node} << 8 | byte;
    if (2 * (values_.size() + 1) > slots_.size()) resize(2 * slots_.size());
    node = static_cast<uint32_t>(values_.size());
    slots_[free_slot(key)] = {key, node};
    values_.push_back(-1);
  }
  values_[node] = value;
}

}  // namespace kvern::text
