// Counts pages; touches no device. One PagePool serves all KV groups of an engine.
//
// The step's exchange is a transaction: what it takes is leased until commit() makes it the
// sequences' own; a lease that dies uncommitted gives the new pages back and takes the released
// ones back too. Invariant after every call: free + cached + leased == total, per KV group.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "run/kv/ids.h"

namespace kvern::kv {

struct GroupConfig {
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  int32_t window_tokens = 0;  // 0: all tokens are kept
};

// How many more pages a sequence needs in each KV group.
struct Need {
  SeqId seq;
  std::vector<int32_t> pages;  // by KV group
};

// A sequence's page ids in logical order, by KV group. Pages that slid out of a window are invalid
// ids.
struct PageTable {
  std::vector<std::vector<PageId>> groups;
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

 private:
  friend class PagePool;
  explicit Lease(PagePool* pool) : pool_(pool) {}
  PagePool* pool_;
  std::vector<SeqId> releases_;
  std::vector<Need> needs_;
  size_t num_released_ = 0, num_taken_ = 0;  // of them, in order
};

struct PoolCounts {
  int32_t total = 0, free = 0, cached = 0, leased = 0;
};

class PagePool {
 public:
  explicit PagePool(std::vector<GroupConfig> groups);

  // Per KV group: free + evictable cached pages.
  std::vector<int32_t> available() const;
  // Gives back every page of `releases`, then takes what `needs` asks for: all or nothing. Needs
  // that exceed available() + released are our bug: KVERN_CHECK.
  Lease exchange(std::span<const SeqId> releases, std::span<const Need> needs);
  // The committed table of a sequence; an empty one when it holds nothing.
  const PageTable& table(SeqId seq) const;
  std::vector<PoolCounts> counts() const;
  void check_invariant() const;  // throws InternalError
  const std::vector<GroupConfig>& groups() const { return groups_; }

 private:
  friend class Lease;
  void check_request(std::span<const SeqId> releases, std::span<const Need> needs) const;
  void release(SeqId seq);
  void take(const Need& need);
  void roll_back(Lease& lease) noexcept;
  static bool names_earlier(const Lease& lease, size_t index);
  void finish(Lease& lease);

  std::vector<GroupConfig> groups_;
  std::vector<std::vector<PageId>> free_;  // by group, used as a stack
  std::unordered_map<SeqId, PageTable> tables_;
  std::unordered_map<SeqId, PageTable> released_;  // by the open lease
  PageTable empty_table_;
  bool lease_open_ = false;
};

}  // namespace kvern::kv
