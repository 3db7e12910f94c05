// Byte-pair encoding of one word: the lowest-ranked adjacent pair is merged first, the leftmost of
// equals (Sennrich et al., 2016). Symbols start as bytes (GPT-2's form) or as characters; ranks are
// the order of the merges or, as SentencePiece does it, the scores of the tokens that result.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/mark_cuts.h"
#include "text/text_model.h"
#include "text/token_table.h"

namespace kvern::text {

class BpeMerger {
 public:
  // `table`, of the model's tokens, must outlive this. Throws Error(kInvalidModel) when a merge's
  // result is no token.
  BpeMerger(const TextModel& model, const TokenTable& table);

  // Appends the ids of `word`. Bytes or characters without a token become what the model says of
  // unknown ones; where it says nothing they are left out before merging.
  void append(std::string_view word, std::vector<int32_t>& ids) const;

  // Forbids the cuts that a merge may cross.
  void forbid_cuts(MarkCuts& cuts) const;

 private:
  struct Rule {
    int32_t rank = kNoRank;
    int32_t result = -1;
  };
  struct Symbol {
    int32_t id;      // -1: characters without a token (by scores only)
    uint32_t begin;  // in the word
    uint32_t end;
  };
  static constexpr int32_t kNoRank = INT32_MAX;

  Rule rule(std::string_view word, const Symbol& left, const Symbol& right) const;
  Rule rule_of_pair(int32_t left, int32_t right) const;
  void add_rule(const Merge& merge, Rule rule);
  void rank_scores(const TextModel& model);
  void add_merges(const TextModel& model);

  int32_t character_id(std::string_view character) const;
  template <class Add>
  void start_symbols(std::string_view word, Add&& add) const;
  template <class Add>
  void start_characters(std::string_view word, Add&& add) const;
  bool add_byte_tokens(std::string_view bytes, std::vector<int32_t>& ids) const;
  void append_ids(std::string_view word, const Symbol* symbols, int count,
                  std::vector<int32_t>& ids) const;
  void merge_short(std::string_view word, Symbol* symbols, int count,
                   std::vector<int32_t>& ids) const;
  void merge_long(std::string_view word, std::vector<Symbol>& symbols,
                  std::vector<int32_t>& ids) const;

  const TokenTable& table_;
  bool bytes_;              // symbols start as bytes
  bool by_scores_ = false;  // ranks come from rank_of_, not from slots_
  bool byte_fallback_;
  bool fuse_unk_;
  bool ignore_merges_;
  int32_t unk_id_;                           // -1: unknown ones are left out
  std::array<int32_t, 256> start_ids_;       // of bytes, or of ASCII characters; -1: no token
  std::array<int32_t, 256> byte_token_ids_;  // "<0x0A>"; -1: no token
  std::vector<int32_t> rank_of_;             // [tokens]; kNoRank: never made by merging
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
