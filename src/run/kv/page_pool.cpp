#include "run/kv/page_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace kvern::kv {

Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), copies_(std::move(other.copies_)) {}

Lease::~Lease() {
  if (pool_ != nullptr) pool_->roll_back();
}

void Lease::commit() {
  KVERN_CHECK(pool_ != nullptr, "a lease is committed once");
  std::exchange(pool_, nullptr)->finish();
}

const PageTable& Lease::table(SeqId seq) const {
  KVERN_CHECK(pool_ != nullptr, "the lease has ended");
  return pool_->table(seq);
}

PagePool::PagePool(std::vector<GroupConfig> groups, BlockHash hash)
    : groups_(std::move(groups)), cache_(groups_, hash) {
  empty_table_.groups.resize(groups_.size());
  for (const GroupConfig& group : groups_) {
    KVERN_CHECK(group.num_pages >= 0 && group.page_tokens > 0, "{} pages of {} tokens",
                group.num_pages, group.page_tokens);
    pages_.emplace_back(group.num_pages);
  }
}

std::vector<int32_t> PagePool::available() const {
  std::vector<int32_t> out;
  for (const GroupPages& pages : pages_) out.push_back(pages.free() + pages.cached());
  return out;
}

const PageTable& PagePool::table(SeqId seq) const {
  const auto it = held_.find(seq);
  return it == held_.end() ? empty_table_ : it->second.table;
}

Lease PagePool::exchange(std::span<const SeqId> releases, std::span<const Need> needs) {
  KVERN_CHECK(!lease_open_, "one lease at a time");
  check_request(releases, needs);
  before_.reserve(releases.size() + needs.size());
  Lease lease(this);
  lease_open_ = true;
  // What fails from here on, for want of memory or of pages, the lease undoes.
  for (const SeqId seq : releases) {
    before_.push_back({seq, held_.extract(seq), {}});
  }
  for (const Need& need : needs) remember(need.seq);
  // Shared pages first: they may be those of a sequence that is released.
  for (const Need& need : needs) begin(need);
  for (const Before& before : before_) {
    if (!before.node.empty()) drop_all(before.node.mapped().table);
  }
  releases_dropped_ = true;
  for (const Need& need : needs) {
    give_up(need);
    take(need, lease.copies_);
  }
  return lease;
}

void PagePool::check_request(std::span<const SeqId> releases, std::span<const Need> needs) const {
  for (size_t i = 0; i < releases.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      KVERN_CHECK(releases[i] != releases[j], "sequence {} is released twice", releases[i].value);
    }
  }
  for (const Need& need : needs) {
    KVERN_CHECK(need.pages.size() == groups_.size(), "needs name {} of {} KV groups",
                need.pages.size(), groups_.size());
    KVERN_CHECK(need.drops.empty() || need.drops.size() == groups_.size());
    KVERN_CHECK(need.copies.empty() || need.copies.size() == groups_.size());
    KVERN_CHECK(!need.begins || need.begins->pages.size() == groups_.size());
    for (const int32_t pages : need.pages) KVERN_CHECK(pages >= 0);
  }
}

void PagePool::remember(SeqId seq) {
  for (const Before& before : before_) {
    if (before.seq == seq) return;
  }
  const auto it = held_.find(seq);
  Before before{seq, {}, {}};
  if (it != held_.end()) before.table = it->second.table;
  before_.push_back(std::move(before));
}

void PagePool::begin(const Need& need) {
  if (!need.begins) return;
  const Prefix& prefix = *need.begins;
  const auto [it, made] = held_.try_emplace(need.seq);
  KVERN_CHECK(made, "sequence {} begins twice", need.seq.value);
  HeldPages& held = it->second;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const PageId page : prefix.pages[g]) {
      KVERN_CHECK(
          !page.valid() ||
              (pages_[g].exists(page) && (pages_[g].refs(page) > 0 || pages_[g].node(page) >= 0)),
          "sequence {} would share page {}, which nobody holds", need.seq.value, page.value);
    }
  }
  held.chain = {prefix.mark, prefix.pending, prefix.tokens, !prefix.in_tree};
  std::vector<std::vector<PageId>> pages = prefix.pages;
  held.table.groups.swap(pages);
  hold_all(held.table);
}

void PagePool::give_up(const Need& need) {
  const auto it = held_.find(need.seq);
  if (need.drops.empty() || it == held_.end()) return;
  PageTable& table = it->second.table;
  for (size_t g = 0; g < groups_.size(); ++g) {
    KVERN_CHECK(static_cast<size_t>(need.drops[g]) <= table.groups[g].size());
    for (size_t i = static_cast<size_t>(need.drops[g]); i-- > 0;) {
      PageId& page = table.groups[g][i];
      if (!page.valid()) break;  // what was given up before
      pages_[g].drop_ref(std::exchange(page, PageId()));
    }
  }
}

void PagePool::take(const Need& need, std::vector<PageCopy>& copies) {
  const auto it = held_.try_emplace(need.seq, HeldPages{empty_table_, {}}).first;
  PageTable& table = it->second.table;
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<PageId>& pages = table.groups[g];
    if (!need.copies.empty() && need.copies[g] != 0) {
      KVERN_CHECK(!pages.empty() && pages.back().valid());
      copies.reserve(copies.size() + 1);
      const PageId src = std::exchange(pages.back(), PageId());
      pages_[g].drop_ref(src);
      pages.back() = take_page(g);  // src itself where only the cache held it and no other is left
      if (pages.back() != src) copies.push_back({static_cast<int32_t>(g), src, pages.back()});
    }
    const size_t size = pages.size() + static_cast<size_t>(need.pages[g]);
    if (size > pages.capacity()) pages.reserve(std::max(size, 2 * pages.capacity()));
    while (pages.size() < size) pages.push_back(take_page(g));
  }
}

// A free page, or the cached one that went longest without a holder.
PageId PagePool::take_page(size_t group) {
  GroupPages& pages = pages_[group];
  if (!pages.first_free().valid()) {
    const PageId oldest = pages.oldest_cached();
    KVERN_CHECK(oldest.valid(), "no page is left in KV group {}", group);
    cache_.remove_page(pages.node(oldest), group, oldest,
                       [this](size_t g, PageId page) { leave_tree(g, page); });
  }
  const PageId page = pages.first_free();
  pages.add_ref(page);
  return page;
}

void PagePool::hold_all(const PageTable& table) noexcept {
  for (size_t g = 0; g < table.groups.size(); ++g) {
    for (const PageId page : table.groups[g]) {
      if (page.valid()) pages_[g].add_ref(page);
    }
  }
}

// Backwards: of a prefix that goes to the cache whole, the end is the oldest and is given up first.
void PagePool::drop_all(const PageTable& table) noexcept {
  for (size_t g = 0; g < table.groups.size(); ++g) {
    const std::vector<PageId>& pages = table.groups[g];
    for (size_t i = pages.size(); i-- > 0;) {
      if (pages[i].valid()) pages_[g].drop_ref(pages[i]);
    }
  }
}

// First every sequence of the exchange lets go of what it holds now, then each gets back what it
// held before: nobody else can have taken it. Tables are swapped and nodes move: nothing is
// allocated (held_ has had as many elements before).
void PagePool::roll_back() noexcept {
  for (const Before& before : before_) {
    const auto it = held_.find(before.seq);
    if (it != held_.end()) drop_all(it->second.table);
  }
  for (Before& before : before_) {
    if (before.table) {
      held_.at(before.seq).table.groups.swap(before.table->groups);
      hold_all(held_.at(before.seq).table);
      continue;
    }
    held_.erase(before.seq);
    if (before.node.empty()) continue;
    if (releases_dropped_) hold_all(before.node.mapped().table);
    held_.insert(std::move(before.node));
  }
  finish();
}

void PagePool::finish() noexcept {
  before_.clear();
  lease_open_ = releases_dropped_ = false;
}

}  // namespace kvern::kv
