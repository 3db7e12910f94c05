// The part of the PagePool that shares prefixes, and its accounts.
#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/checked.h"
#include "run/kv/page_pool.h"

namespace kvern::kv {

Prefix PagePool::find_prefix(std::span<const int32_t> ids, int64_t max_tokens) const {
  return cache_.find(ids, max_tokens);
}

std::optional<Prefix> PagePool::prefix_of(SeqId seq, int64_t tokens) const {
  const auto it = held_.find(seq);
  if (it == held_.end() || tokens < 1) return std::nullopt;
  const HeldPages& held = it->second;
  Prefix prefix;
  prefix.tokens = tokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupConfig& group = groups_[g];
    const auto num_pages = static_cast<size_t>(ceil_div(tokens, group.page_tokens));
    const auto first = static_cast<size_t>(group.first_page_seen(tokens));
    const std::vector<PageId>& from = held.table.groups[g];
    if (from.size() < num_pages) return std::nullopt;
    std::vector<PageId>& pages = prefix.pages.emplace_back(num_pages);
    for (size_t i = first; i < num_pages; ++i) {
      if (!from[i].valid()) return std::nullopt;
      pages[i] = from[i];
    }
  }
  const CacheChain& chain = held.chain;
  if (chain.lost || chain.tokens < tokens || !cache_.alive(chain.mark)) return prefix;
  prefix.in_tree = true;
  prefix.mark = chain.mark;
  prefix.pending = chain.pending;
  int64_t block_end = chain.tokens - static_cast<int64_t>(chain.pending.size());
  for (; block_end > tokens; block_end -= cache_.block_tokens()) {
    prefix.pending = cache_.tokens(prefix.mark);
    prefix.mark = cache_.parent(prefix.mark);
  }
  prefix.pending.resize(static_cast<size_t>(tokens - block_end));
  return prefix;
}

void PagePool::note_computed(SeqId seq, int64_t start, std::span<const int32_t> ids) {
  KVERN_CHECK(!lease_open_, "pages are cached when the step is over");
  const auto it = held_.find(seq);
  if (it == held_.end() || block_tokens() == 0) return;
  CacheChain& chain = it->second.chain;
  if (chain.lost) return;
  chain.lost = true;  // unless all goes well: a cache may do without
  if (start != chain.tokens || !cache_.alive(chain.mark)) return;
  try {
    for (const int32_t id : ids) {
      chain.pending.push_back(id);
      ++chain.tokens;
      const bool whole = static_cast<int32_t>(chain.pending.size()) == block_tokens();
      if (whole && !publish_block(it->second)) return;
    }
  } catch (const std::bad_alloc&) {
    return;
  }
  chain.lost = false;
}

bool PagePool::publish_block(HeldPages& held) {
  CacheChain& chain = held.chain;
  const CacheMark mark = cache_.add(chain.mark, chain.pending);
  if (mark.node < 0) return false;
  const int64_t first_token = chain.tokens - block_tokens();
  const auto for_each_new_page = [&](auto visit) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int64_t first_page = first_token / groups_[g].page_tokens;
      for (int32_t i = 0; i < cache_.pages_per_block(g); ++i) {
        const PageId page = held.table.groups[g][static_cast<size_t>(first_page + i)];
        // Another sequence may have computed the same block: its page stays.
        if (page.valid() && !cache_.page(mark.node, g, i).valid()) visit(g, i, page);
      }
    }
  };
  // Contexts that part inside a block of several pages share its first ones, which then belong to
  // the block of whoever came first.
  bool whole = true;
  for_each_new_page([&](size_t g, int32_t, PageId page) {
    whole &= groups_[g].window_tokens > 0 || pages_[g].node(page) < 0;
  });
  for_each_new_page([&](size_t g, int32_t i, PageId page) {
    if (!whole || pages_[g].node(page) >= 0) return;
    cache_.set_page(mark.node, g, i, page);
    pages_[g].set_node(page, mark.node);
  });
  if (cache_.remove_if_empty(mark.node)) return false;
  chain.mark = mark;
  chain.pending.clear();
  return true;
}

void PagePool::flush_cache() {
  KVERN_CHECK(!lease_open_, "the cache is flushed between steps");
  cache_.clear([this](size_t g, PageId page) { leave_tree(g, page); });
}

std::vector<PoolCounts> PagePool::counts() const {
  std::vector<PoolCounts> out;
  for (const GroupPages& pages : pages_) {
    out.push_back({pages.total(), pages.free(), pages.cached(), pages.leased()});
  }
  return out;
}

void PagePool::check_invariant() const {
  cache_.check();
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupPages& pages = pages_[g];
    pages.check();
    std::vector<int32_t> refs(static_cast<size_t>(pages.total()), 0);
    for (const auto& [seq, held] : held_) {
      for (const PageId page : held.table.groups[g]) {
        if (!page.valid()) continue;
        KVERN_CHECK(pages.exists(page), "page {} of KV group {} does not exist", page.value, g);
        ++refs[static_cast<size_t>(page.value)];
      }
    }
    for (int32_t p = 0; p < pages.total(); ++p) {
      const PageId page(p);
      KVERN_CHECK(pages.refs(page) == refs[static_cast<size_t>(p)],
                  "page {} of KV group {} has {} holders, {} are counted", p, g,
                  refs[static_cast<size_t>(p)], pages.refs(page));
      if (pages.node(page) < 0) continue;
      bool there = false;
      for (int32_t i = 0; i < cache_.pages_per_block(g); ++i) {
        there |= cache_.page(pages.node(page), g, i) == page;
      }
      KVERN_CHECK(there, "page {} of KV group {} is not in its block", p, g);
    }
    KVERN_CHECK(pages.free() + pages.cached() + pages.leased() == pages.total());
  }
}

}  // namespace kvern::kv
