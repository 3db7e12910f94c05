#include "run/kv/page_budget.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"

namespace kvern::kv {

PageBudget::PageBudget(const PagePool& pool)
    : pool_(&pool), available_(pool.available()), changes_(available_.size()) {
  empty_table_.groups.resize(available_.size());
}

int32_t PageBudget::refs(size_t group, PageId page) const {
  const auto it = changes_[group].find(page.value);
  return pool_->pages(group).refs(page) + (it == changes_[group].end() ? 0 : it->second);
}

void PageBudget::add_ref(size_t group, PageId page, int32_t change) {
  const int32_t before = refs(group, page);
  changes_[group][page.value] += change;
  available_[group] += (before + change == 0 ? 1 : 0) - (before == 0 ? 1 : 0);
}

void PageBudget::release(SeqId seq) {
  if (!released_.insert(seq).second) return;
  const PageTable& held = pool_->table(seq);
  for (size_t g = 0; g < held.groups.size(); ++g) {
    for (const PageId page : held.groups[g]) {
      if (page.valid()) add_ref(g, page, -1);
    }
  }
}

void PageBudget::begin(const Prefix& prefix) {
  for (size_t g = 0; g < prefix.pages.size(); ++g) {
    for (const PageId page : prefix.pages[g]) {
      if (page.valid()) add_ref(g, page, 1);
    }
  }
}

const PageTable& PageBudget::table(SeqId seq) const {
  return released_.contains(seq) ? empty_table_ : pool_->table(seq);
}

PageBudget::Growth PageBudget::prepare(const PageTable& table, int64_t start, size_t group) const {
  Growth out;
  const GroupConfig& config = pool_->groups()[group];
  const std::vector<PageId>& pages = table.groups[group];
  if (config.window_tokens > 0) {
    const auto drops = std::min(static_cast<size_t>(config.first_page_seen(start)), pages.size());
    for (size_t i = drops; i-- > 0 && pages[i].valid();) {
      out.drops = static_cast<int32_t>(drops);
      if (refs(group, pages[i]) == 1) ++out.freed;
    }
  }
  if (start % config.page_tokens != 0) {
    KVERN_CHECK(!pages.empty() && pages.back().valid(), "token {} has no page before it", start);
    const PageId tail = pages.back();
    const bool cached = pool_->pages(group).node(tail) >= 0;
    out.copy = refs(group, tail) > 1 || cached;
    out.tail = refs(group, tail) > 1 ? 1 : 0;
  }
  return out;
}

int64_t PageBudget::fit(const PageTable& table, int64_t start, int64_t count) const {
  int64_t most = count;
  for (size_t g = 0; g < available_.size(); ++g) {
    const Growth growth = prepare(table, start, g);
    const int64_t left = int64_t{available_[g]} + growth.freed - growth.tail;
    const int64_t pages = static_cast<int64_t>(table.groups[g].size()) + left;
    most = std::min(most, pages * pool_->groups()[g].page_tokens - start);
  }
  return std::max<int64_t>(0, most);
}

int32_t PageBudget::tail_cost(const PageTable& table, int64_t start, size_t group) const {
  return prepare(table, start, group).tail;
}

std::optional<Need> PageBudget::grow(SeqId seq, const PageTable& table, int64_t start,
                                     int64_t count) {
  std::optional<Need> need;
  for (size_t g = 0; g < available_.size(); ++g) {
    const std::vector<PageId>& pages = table.groups[g];
    const Growth growth = prepare(table, start, g);
    const auto fresh =
        static_cast<int32_t>(ceil_div(start + count, pool_->groups()[g].page_tokens) -
                             static_cast<int64_t>(pages.size()));
    KVERN_CHECK(fresh >= 0, "sequence {} holds {} pages at token {}", seq.value, pages.size(),
                start);
    if (fresh == 0 && growth.drops == 0 && !growth.copy) continue;
    if (!need) {
      need.emplace(Need{seq, std::vector<int32_t>(available_.size(), 0)});
      need->drops.assign(available_.size(), 0);
      need->copies.assign(available_.size(), 0);
    }
    need->pages[g] = fresh;
    need->drops[g] = growth.drops;
    need->copies[g] = growth.copy ? 1 : 0;
    for (int32_t i = growth.drops; i-- > 0 && pages[static_cast<size_t>(i)].valid();) {
      add_ref(g, pages[static_cast<size_t>(i)], -1);
    }
    if (growth.copy) add_ref(g, pages.back(), -1);
    available_[g] -= fresh + (growth.copy ? 1 : 0);
    KVERN_CHECK(available_[g] >= 0, "sequence {} takes more pages than there are", seq.value);
  }
  return need;
}

int64_t PageBudget::tokens_alone(SeqId seq, int64_t tokens) const {
  const PageTable& held = table(seq);
  int64_t shared = tokens;
  for (size_t g = 0; g < held.groups.size(); ++g) {
    const GroupConfig& config = pool_->groups()[g];
    const std::vector<PageId>& pages = held.groups[g];
    size_t i = 0;
    while (i < pages.size() && (!pages[i].valid() || refs(g, pages[i]) > 1)) ++i;
    shared = std::min(shared, static_cast<int64_t>(i) * config.page_tokens);
  }
  return tokens - shared;
}

int32_t PageBudget::most_pages(int64_t tokens, int64_t chunk_tokens, size_t group) const {
  const GroupConfig& config = pool_->groups()[group];
  const int64_t all = ceil_div(tokens, config.page_tokens);
  if (config.window_tokens == 0) return static_cast<int32_t>(all);
  const int64_t seen = config.window_tokens - 1 + std::min(chunk_tokens, tokens);
  return static_cast<int32_t>(std::min(all, ceil_div(seen, config.page_tokens) + 1));
}

int32_t PageBudget::pages_held(int64_t tokens, size_t group) const {
  const GroupConfig& config = pool_->groups()[group];
  const int64_t all = ceil_div(tokens, config.page_tokens);
  if (config.window_tokens == 0) return static_cast<int32_t>(all);
  const int64_t first_seen = std::max<int64_t>(0, tokens - config.window_tokens);
  return static_cast<int32_t>(all - first_seen / config.page_tokens);
}

}  // namespace kvern::kv
