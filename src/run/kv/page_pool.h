// Counts pages; touches no device. One PagePool serves all KV groups of an engine.
//
// The step's exchange is a transaction: what it takes is leased until commit() makes it the
// sequences' own; a lease that dies uncommitted gives the new pages back and takes the released
// ones back too (what the prefix cache gave up meanwhile stays given up). Invariant after every
// call: free + cached + leased == total, per KV group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "run/kv/group_pages.h"
#include "run/kv/ids.h"
#include "run/kv/prefix_cache.h"

namespace kvern::kv {

// A sequence's page ids in logical order, by KV group. Pages that slid out of a window are invalid
// ids.
struct PageTable {
  std::vector<std::vector<PageId>> groups;
};

// What a sequence asks for, in this order: to begin with the pages of others, to give up those that
// slid out of windows, a copy of its last page where others hold that too, fresh pages at the end.
struct Need {
  SeqId seq;
  std::vector<int32_t> pages;         // by KV group: fresh ones at the end
  std::vector<int32_t> drops = {};    // by KV group, or empty: pages [0, drops) go
  std::vector<uint8_t> copies = {};   // by KV group, or empty: the last page becomes a copy of it
  std::optional<Prefix> begins = {};  // the sequence holds nothing yet
};

// Before the run: copy on write.
struct PageCopy {
  int32_t kv_group = 0;
  PageId src;
  PageId dst;
};

class PagePool;

class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  ~Lease();  // rolls back unless committed; allocates nothing
  void commit();
  // The table of any sequence while the lease is open, new pages at the end.
  const PageTable& table(SeqId seq) const;
  const std::vector<PageCopy>& page_copies() const { return copies_; }

 private:
  friend class PagePool;
  explicit Lease(PagePool* pool) : pool_(pool) {}
  PagePool* pool_;
  std::vector<PageCopy> copies_;
};

// How far a sequence's tokens are in the prefix cache.
struct CacheChain {
  CacheMark mark;
  std::vector<int32_t> pending;  // computed, less than a block
  int64_t tokens = 0;            // pending included
  bool lost = false;
};

struct HeldPages {
  PageTable table;
  CacheChain chain;
};

struct PoolCounts {
  int32_t total = 0, free = 0, cached = 0, leased = 0;
};

class PagePool {
 public:
  explicit PagePool(std::vector<GroupConfig> groups, BlockHash hash = hash_block);

  // Per KV group: free + cached pages.
  std::vector<int32_t> available() const;
  // Gives back every page of `releases`, then takes what `needs` asks for: all or nothing. Needs
  // that exceed available() + released are our bug: KVERN_CHECK.
  Lease exchange(std::span<const SeqId> releases, std::span<const Need> needs);
  // The committed table of a sequence; an empty one when it holds nothing.
  const PageTable& table(SeqId seq) const;

  // The longest prefix of `ids` in the cache, at most max_tokens of it: for Need::begins of the
  // next exchange.
  Prefix find_prefix(std::span<const int32_t> ids, int64_t max_tokens) const;
  // The first `tokens` tokens of `seq`, to be shared; nothing where their pages are not all held.
  std::optional<Prefix> prefix_of(SeqId seq, int64_t tokens) const;
  // Tokens [start, start + ids.size()) of `seq` are in its committed pages: whole blocks go into
  // the prefix cache. A sequence that leaves some out is not cached from there on.
  void note_computed(SeqId seq, int64_t start, std::span<const int32_t> ids);
  // Gives up every page that only the prefix cache holds, and forgets all prefixes.
  void flush_cache();

  std::vector<PoolCounts> counts() const;
  void check_invariant() const;  // throws InternalError
  const std::vector<GroupConfig>& groups() const { return groups_; }
  const GroupPages& pages(size_t group) const { return pages_[group]; }
  // Tokens of one piece of the prefix cache; 0: there is none.
  int32_t block_tokens() const { return cache_.block_tokens(); }

 private:
  friend class Lease;
  using HeldMap = std::unordered_map<SeqId, HeldPages>;
  // What a sequence held before the open exchange: its own node of held_, a copy of its table, or
  // nothing.
  struct Before {
    SeqId seq;
    HeldMap::node_type node;
    std::optional<PageTable> table;
  };

  void check_request(std::span<const SeqId> releases, std::span<const Need> needs) const;
  void remember(SeqId seq);
  void begin(const Need& need);
  void give_up(const Need& need);
  void take(const Need& need, std::vector<PageCopy>& copies);
  PageId take_page(size_t group);
  void hold_all(const PageTable& table) noexcept;
  void drop_all(const PageTable& table) noexcept;
  void roll_back() noexcept;
  void finish() noexcept;
  bool publish_block(HeldPages& held);
  void leave_tree(size_t group, PageId page) { pages_[group].set_node(page, -1); }

  std::vector<GroupConfig> groups_;
  std::vector<GroupPages> pages_;
  PrefixCache cache_;
  HeldMap held_;
  std::vector<Before> before_;  // of the open lease
  PageTable empty_table_;
  bool lease_open_ = false;
  bool releases_dropped_ = false;  // by the open lease
};

}  // namespace kvern::kv
