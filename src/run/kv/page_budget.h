// What an exchange to come would leave: a scheduler asks it while it puts a step together. Answers
// for the releases, shared prefixes and growth it was told of, in any order, exactly as
// PagePool::exchange will act. Copies are cheap: a copy answers "what if".
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "run/kv/page_pool.h"

namespace kvern::kv {

class PageBudget {
 public:
  explicit PageBudget(const PagePool& pool);

  int32_t available(size_t group) const { return available_[group]; }
  size_t num_groups() const { return available_.size(); }
  const PagePool& pool() const { return *pool_; }

  void release(SeqId seq);
  bool released(SeqId seq) const { return released_.contains(seq); }
  // A sequence begins with the pages of `prefix`.
  void begin(const Prefix& prefix);
  // The most tokens, `count` at most, that fit behind the first `start` of a sequence that holds
  // `table`.
  int64_t fit(const PageTable& table, int64_t start, int64_t count) const;
  // Pages that writing behind `start` costs before anything fresh: 1 for a copy of the last page.
  int32_t tail_cost(const PageTable& table, int64_t start, size_t group) const;
  // They are taken: what exchange must be asked for. Nothing where no page moves.
  std::optional<Need> grow(SeqId seq, const PageTable& table, int64_t start, int64_t count);
  // The table that `seq` holds unless it was released.
  const PageTable& table(SeqId seq) const;
  // Of the first `tokens` tokens of `seq`, those in pages that nobody else holds.
  int64_t tokens_alone(SeqId seq, int64_t tokens) const;

  // Pages that a sequence of `tokens` tokens holds at most when it is computed `chunk_tokens` at a
  // time, and those it holds at least once `tokens` of it are.
  int32_t most_pages(int64_t tokens, int64_t chunk_tokens, size_t group) const;
  int32_t pages_held(int64_t tokens, size_t group) const;

 private:
  // Of one group, before anything fresh. `freed` pages by the drops, `tail` 1 for a copy that frees
  // nothing.
  struct Growth {
    int32_t drops = 0, freed = 0, tail = 0;
    bool copy = false;
  };
  Growth prepare(const PageTable& table, int64_t start, size_t group) const;
  int32_t refs(size_t group, PageId page) const;
  void add_ref(size_t group, PageId page, int32_t change);

  const PagePool* pool_;
  std::vector<int32_t> available_;
  std::vector<std::unordered_map<int32_t, int32_t>> changes_;  // of references, by group and page
  std::unordered_set<SeqId> released_;
  PageTable empty_table_;
};

}  // namespace kvern::kv
