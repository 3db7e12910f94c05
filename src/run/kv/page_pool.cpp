#include "run/kv/page_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvern::kv {

Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      releases_(std::move(other.releases_)),
      needs_(std::move(other.needs_)),
      num_released_(other.num_released_),
      num_taken_(other.num_taken_) {}

Lease::~Lease() {
  if (pool_ != nullptr) pool_->roll_back(*this);
}

void Lease::commit() {
  KVERN_CHECK(pool_ != nullptr, "a lease is committed once");
  std::exchange(pool_, nullptr)->finish(*this);
}

const PageTable& Lease::table(SeqId seq) const {
  KVERN_CHECK(pool_ != nullptr, "the lease has ended");
  return pool_->table(seq);
}

PagePool::PagePool(std::vector<GroupConfig> groups) : groups_(std::move(groups)) {
  empty_table_.groups.resize(groups_.size());
  for (const GroupConfig& group : groups_) {
    KVERN_CHECK(group.num_pages >= 0 && group.page_tokens > 0, "{} pages of {} tokens",
                group.num_pages, group.page_tokens);
    std::vector<PageId>& free = free_.emplace_back();
    free.reserve(static_cast<size_t>(group.num_pages));
    // The lowest id on top: memory that was never touched stays untouched.
    for (int32_t page = group.num_pages; page-- > 0;) free.emplace_back(page);
  }
}

std::vector<int32_t> PagePool::available() const {
  std::vector<int32_t> out;
  for (const std::vector<PageId>& free : free_) out.push_back(static_cast<int32_t>(free.size()));
  return out;
}

const PageTable& PagePool::table(SeqId seq) const {
  const auto it = tables_.find(seq);
  return it == tables_.end() ? empty_table_ : it->second;
}

Lease PagePool::exchange(std::span<const SeqId> releases, std::span<const Need> needs) {
  KVERN_CHECK(!lease_open_, "one lease at a time");
  check_request(releases, needs);
  Lease lease(this);
  lease.releases_.assign(releases.begin(), releases.end());
  lease.needs_.assign(needs.begin(), needs.end());
  released_.reserve(releases.size());
  lease_open_ = true;
  // Each of them happens whole or, for want of memory, not at all; the lease then undoes the rest.
  for (; lease.num_released_ < releases.size(); ++lease.num_released_) {
    release(releases[lease.num_released_]);
  }
  for (; lease.num_taken_ < needs.size(); ++lease.num_taken_) take(needs[lease.num_taken_]);
  return lease;
}

// Everything that can be refused is refused here, before a page moves.
void PagePool::check_request(std::span<const SeqId> releases, std::span<const Need> needs) const {
  std::vector<int64_t> left;
  for (const std::vector<PageId>& free : free_) left.push_back(static_cast<int64_t>(free.size()));
  for (size_t i = 0; i < releases.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      KVERN_CHECK(releases[i] != releases[j], "sequence {} is released twice", releases[i].value);
    }
    const PageTable& held = table(releases[i]);
    for (size_t g = 0; g < left.size(); ++g) left[g] += static_cast<int64_t>(held.groups[g].size());
  }
  for (const Need& need : needs) {
    KVERN_CHECK(need.pages.size() == groups_.size(), "needs name {} of {} KV groups",
                need.pages.size(), groups_.size());
    for (size_t g = 0; g < left.size(); ++g) {
      KVERN_CHECK(need.pages[g] >= 0);
      left[g] -= need.pages[g];
      KVERN_CHECK(left[g] >= 0, "sequence {} finds no page in KV group {}", need.seq.value, g);
    }
  }
}

void PagePool::release(SeqId seq) {
  const auto it = tables_.find(seq);
  if (it == tables_.end()) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    // Backwards, so that roll_back finds them on top of the stack in the table's order.
    const std::vector<PageId>& pages = it->second.groups[g];
    free_[g].insert(free_[g].end(), pages.rbegin(), pages.rend());
  }
  released_.insert(tables_.extract(it));
}

void PagePool::take(const Need& need) {
  PageTable& table = tables_.try_emplace(need.seq, empty_table_).first->second;
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<PageId>& pages = table.groups[g];
    const size_t size = pages.size() + static_cast<size_t>(need.pages[g]);
    if (size > pages.capacity()) pages.reserve(std::max(size, 2 * pages.capacity()));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (int32_t i = 0; i < need.pages[g]; ++i) {
      table.groups[g].push_back(free_[g].back());
      free_[g].pop_back();
    }
  }
}

// Undoes take and release in reverse order, so that the free stacks end exactly as they were. Free
// stacks have room for every page and nodes move: nothing is allocated.
void PagePool::roll_back(Lease& lease) noexcept {
  // One more than were taken: a take that found no memory may have left an empty table.
  for (size_t n = std::min(lease.num_taken_ + 1, lease.needs_.size()); n-- > 0;) {
    const Need& need = lease.needs_[n];
    const auto it = tables_.find(need.seq);
    if (it == tables_.end()) continue;
    const bool taken = n < lease.num_taken_;
    bool empty = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<PageId>& pages = it->second.groups[g];
      for (int32_t i = 0; taken && i < need.pages[g]; ++i) {
        free_[g].push_back(pages.back());
        pages.pop_back();
      }
      empty &= pages.empty();
    }
    if (empty && !names_earlier(lease, n)) tables_.erase(it);
  }
  for (size_t r = lease.num_released_; r-- > 0;) {
    auto node = released_.extract(lease.releases_[r]);
    if (node.empty()) continue;
    for (size_t g = 0; g < groups_.size(); ++g) {
      free_[g].erase(free_[g].end() - static_cast<ptrdiff_t>(node.mapped().groups[g].size()),
                     free_[g].end());
    }
    tables_.insert(std::move(node));
  }
  lease_open_ = false;
}

bool PagePool::names_earlier(const Lease& lease, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (lease.needs_[i].seq == lease.needs_[index].seq) return true;
  }
  return false;
}

void PagePool::finish(Lease&) {
  released_.clear();
  lease_open_ = false;
}

std::vector<PoolCounts> PagePool::counts() const {
  std::vector<PoolCounts> out;
  for (size_t g = 0; g < groups_.size(); ++g) {
    PoolCounts counts{groups_[g].num_pages, static_cast<int32_t>(free_[g].size()), 0, 0};
    for (const auto& [seq, table] : tables_) {
      counts.leased += static_cast<int32_t>(table.groups[g].size());
    }
    out.push_back(counts);
  }
  return out;
}

void PagePool::check_invariant() const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<bool> seen(static_cast<size_t>(groups_[g].num_pages), false);
    size_t total = 0;
    const auto see = [&](PageId page, const char* where) {
      KVERN_CHECK(page.value >= 0 && page.value < groups_[g].num_pages,
                  "page {} of KV group {} ({}) does not exist", page.value, g, where);
      KVERN_CHECK(!seen[static_cast<size_t>(page.value)],
                  "page {} of KV group {} is held twice ({})", page.value, g, where);
      seen[static_cast<size_t>(page.value)] = true;
      ++total;
    };
    for (const PageId page : free_[g]) see(page, "free");
    for (const auto& [seq, table] : tables_) {
      for (const PageId page : table.groups[g]) see(page, "leased");
    }
    KVERN_CHECK(total == seen.size(), "free + cached + leased = {} of {} pages in KV group {}",
                total, seen.size(), g);
  }
}

}  // namespace kvern::kv
