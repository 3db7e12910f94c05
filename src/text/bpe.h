// Byte-level byte-pair encoding of one word: the lowest-ranked adjacent pair is merged first, the
// leftmost of equals (Sennrich et al., 2016; bytes as in GPT-2).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/text_model.h"

namespace kvern::text {

class BpeMerger {
 public:
  // Throws Error(kInvalidModel) when a merge's result is no token.
  explicit BpeMerger(const TextModel& model);

  // Appends the ids of `word`. Bytes without a token are left out before merging.
  void append(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  struct Rule {
    int32_t rank = kNoRank;
    int32_t result = -1;
  };
  static constexpr int32_t kNoRank = INT32_MAX;

  Rule rule(int32_t left, int32_t right) const;
  void add_rule(const Merge& merge, Rule rule);
  void merge_short(int32_t* symbols, int count, std::vector<int32_t>& ids) const;
  void merge_long(std::vector<int32_t>& symbols, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_;  // -1: no token
  // Open addressing, a power of two of slots, at most half full: one miss is one cache line.
  struct Slot {
    uint64_t key = kEmpty;  // left << 32 | right
    Rule rule;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace kvern::text
