// Unigram segmentation of one word: the pieces whose scores add up to the most (Kudo, 2018), found
// by dynamic programming over the ends of characters.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/mark_cuts.h"
#include "text/text_model.h"
#include "text/token_table.h"

namespace kvern::text {

class UnigramSegmenter {
 public:
  // `table`, of the model's tokens, must outlive this.
  UnigramSegmenter(const TextModel& model, const TokenTable& table);

  void append(std::string_view word, std::vector<int32_t>& ids) const;

  // Forbids the cuts that a piece may cross.
  void forbid_cuts(MarkCuts& cuts) const;

 private:
  struct Node {
    double score = 0;
    uint32_t begin = 0;  // of the last piece
    int32_t id = -1;
    bool reached = false;
  };
  void extend(std::string_view word, uint32_t at, std::vector<Node>& nodes) const;
  void append_piece(std::string_view piece, int32_t id, std::vector<int32_t>& ids) const;

  const TokenTable& table_;
  ByteTrie trie_;
  std::vector<double> scores_;  // [tokens]
  double unknown_score_ = 0;
  int32_t unk_id_;  // -1: unknown characters are left out
  bool byte_fallback_;
  bool fuse_unk_;
  std::array<int32_t, 256> byte_token_ids_;
};

}  // namespace kvern::text
