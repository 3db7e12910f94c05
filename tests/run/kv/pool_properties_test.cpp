// Pool, prefix cache and budget against a simple model: sequences of tokens whose pages are memory.
// Whatever is grown, forked, rewound, released, flushed, abandoned or short of memory: every
// sequence reads back its own tokens, the budget foretells the exchange, no page is lost.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <map>
#include <new>

#include "run/kv/page_budget.h"
#include "run/kv/page_pool.h"
#include "tests/run/failing_allocator.h"

namespace kvern::kv {
namespace {

using Ids = std::vector<int32_t>;

// A verdict of the change, not of the day; RC_PARAMS in the environment wins.
const int kConfigured = setenv("RC_PARAMS", "seed=20261129 max_success=200", 0);

class Machine {
 public:
  Machine(std::vector<GroupConfig> groups, BlockHash hash) : pool_(groups, hash) {
    for (const GroupConfig& group : groups) {
      memory_.emplace_back(static_cast<size_t>(group.num_pages * group.page_tokens), -1);
    }
  }

  // Every number is a deed; any list of numbers is a life.
  void act(uint32_t code) {
    const auto a = static_cast<int32_t>(code / 16 % 8), b = static_cast<int32_t>(code / 128 % 32);
    switch (code % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
        begin(a % 3, 1 + b, {});
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        grow(a, 1 + b % 12);
        break;
      case 8:
        branch(a, b, /*ends=*/false);
        break;
      case 9:
        branch(a, b, /*ends=*/true);
        break;
      case 10:
        if (b < 3) pool_.flush_cache();
        break;
      case 11:
        abandoned_ = true;
        grow(a, 1 + b % 12);
        break;
      case 12:
        failing_ = b;
        begin(a % 3, 1 + b, {});
        break;
      default:
        release(a);
    }
    abandoned_ = false;
    failing_ = -1;
    check();
  }

  void end() {
    while (!sequences_.empty()) release(0);
    pool_.flush_cache();
    check();
    for (const PoolCounts& counts : pool_.counts()) RC_ASSERT(counts.free == counts.total);
  }

 private:
  // The i-th id of one of three texts that begin alike.
  static int32_t id_of(int32_t text, size_t at) {
    return static_cast<int32_t>(at) + (static_cast<int32_t>(at) >= 9 * text ? 100 * text : 0);
  }

  std::map<SeqId, Ids>::iterator some(int32_t which) {
    auto it = sequences_.begin();
    if (!sequences_.empty()) std::advance(it, which % static_cast<int32_t>(sequences_.size()));
    return it;
  }

  void begin(int32_t text, int32_t count, std::vector<SeqId> releases) {
    Ids ids;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) ids.push_back(id_of(text, i));
    const Prefix prefix = pool_.find_prefix(ids, count - 1);
    std::optional<Prefix> begins;
    if (prefix.tokens > 0) begins = prefix;
    run(SeqId(next_++), ids, begins, std::move(releases));
  }

  void grow(int32_t which, int32_t count) {
    const auto it = some(which);
    if (it == sequences_.end()) return;
    Ids ids = it->second;
    for (int32_t i = 0; i < count; ++i) ids.push_back(id_of(which % 3, ids.size()));
    run(it->first, ids, {}, {});
  }

  // A second sequence goes on from the first tokens of one; with `ends` that one is released.
  void branch(int32_t which, int32_t keep, bool ends) {
    const auto it = some(which);
    if (it == sequences_.end()) return;
    const auto tokens = std::min<int64_t>(keep, static_cast<int64_t>(it->second.size()));
    const std::optional<Prefix> prefix = pool_.prefix_of(it->first, tokens);
    if (!prefix) return;
    Ids ids(it->second.begin(), it->second.begin() + tokens);
    for (int32_t i = 0; i < 5; ++i) ids.push_back(500 + which);
    run(SeqId(next_++), ids, prefix, ends ? std::vector{it->first} : std::vector<SeqId>());
  }

  void release(int32_t which) {
    const auto it = some(which);
    if (it == sequences_.end()) return;
    const SeqId id = it->first;
    PageBudget budget(pool_);
    budget.release(id);
    pool_.exchange({&id, 1}, {}).commit();
    check_budget(budget);
    sequences_.erase(it);
  }

  void run(SeqId seq, const Ids& ids, const std::optional<Prefix>& begins,
           const std::vector<SeqId>& releases) {
    PageBudget budget(pool_);
    PageTable table = pool_.table(seq);
    auto start = sequences_.contains(seq) ? static_cast<int64_t>(sequences_[seq].size()) : 0;
    if (begins) {
      budget.begin(*begins);
      table.groups = begins->pages;
      start = begins->tokens;
    }
    for (const SeqId id : releases) budget.release(id);
    const int64_t count = budget.fit(table, start, static_cast<int64_t>(ids.size()) - start);
    if (count == 0) {
      if (!sequences_.contains(seq)) return;
      return release(0);
    }
    std::optional<Need> need = budget.grow(seq, table, start, count);
    if (begins && !need) need = Need{seq, std::vector<int32_t>(pool_.groups().size(), 0)};
    if (begins) need->begins = begins;
    const std::vector<int32_t> available = pool_.available();
    try {
      const std::vector<Need> needs = need ? std::vector{*need} : std::vector<Need>();
      testing::allocations_left = failing_;
      Lease lease = pool_.exchange(releases, needs);
      testing::allocations_left = -1;
      if (abandoned_) throw std::bad_alloc();
      for (const PageCopy& copy : lease.page_copies()) copy_page(copy);
      for (int64_t at = start; at < start + count; ++at) {
        for (size_t g = 0; g < memory_.size(); ++g) {
          token(lease.table(seq), g, at) = ids[static_cast<size_t>(at)];
        }
      }
      lease.commit();
    } catch (const std::bad_alloc&) {
      testing::allocations_left = -1;
      RC_ASSERT(pool_.available() == available);
      return;
    }
    check_budget(budget);
    const auto end = static_cast<size_t>(start + count);
    pool_.note_computed(
        seq, start, std::span(ids).subspan(static_cast<size_t>(start), static_cast<size_t>(count)));
    for (const SeqId id : releases) sequences_.erase(id);
    sequences_[seq].assign(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(end));
  }

  int32_t& token(const PageTable& table, size_t g, int64_t at) {
    const int32_t page_tokens = pool_.groups()[g].page_tokens;
    const PageId page = table.groups[g].at(static_cast<size_t>(at / page_tokens));
    RC_ASSERT(page.valid());
    return memory_[g][static_cast<size_t>(page.value * page_tokens + at % page_tokens)];
  }

  void copy_page(const PageCopy& copy) {
    const auto g = static_cast<size_t>(copy.kv_group);
    const int32_t page_tokens = pool_.groups()[g].page_tokens;
    std::copy_n(memory_[g].begin() + copy.src.value * page_tokens, page_tokens,
                memory_[g].begin() + copy.dst.value * page_tokens);
  }

  void check_budget(const PageBudget& budget) {
    for (size_t g = 0; g < memory_.size(); ++g) {
      RC_ASSERT(budget.available(g) == pool_.available()[g]);
    }
  }

  void check() {
    pool_.check_invariant();
    for (const auto& [seq, ids] : sequences_) {
      const auto length = static_cast<int64_t>(ids.size());
      for (size_t g = 0; g < memory_.size(); ++g) {
        const int32_t window = pool_.groups()[g].window_tokens;
        const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, length - window + 1);
        for (int64_t at = first; at < length; ++at) {
          RC_ASSERT(token(pool_.table(seq), g, at) == ids[static_cast<size_t>(at)]);
        }
      }
    }
  }

  PagePool pool_;
  std::vector<Ids> memory_;  // by KV group
  std::map<SeqId, Ids> sequences_;
  int64_t next_ = 1;
  bool abandoned_ = false;
  int failing_ = -1;
};

uint64_t three_hashes(uint64_t parent, std::span<const int32_t> tokens) {
  return (parent + static_cast<uint64_t>(tokens[0])) % 3;
}

void expect_any_life_ends_well(const std::vector<GroupConfig>& groups, BlockHash hash) {
  const bool ok = rc::check([&] {
    const auto deeds = *rc::gen::scale(4.0, rc::gen::arbitrary<std::vector<uint32_t>>());
    Machine machine(groups, hash);
    for (const uint32_t deed : deeds) machine.act(deed);
    machine.end();
  });
  EXPECT_TRUE(ok);
}

TEST(PoolProperties, OneGroup) {
  expect_any_life_ends_well({{20, 4, 0}}, hash_block);
}
TEST(PoolProperties, AWindowBesideAllAndHashesThatCollide) {
  expect_any_life_ends_well({{20, 4, 0}, {14, 4, 10}}, three_hashes);
}
TEST(PoolProperties, WindowsAlone) {
  expect_any_life_ends_well({{14, 4, 7}}, hash_block);
}
TEST(PoolProperties, PageLengthsThatDiffer) {
  expect_any_life_ends_well({{40, 2, 0}, {20, 3, 5}, {20, 6, 0}}, hash_block);
}

}  // namespace
}  // namespace kvern::kv
