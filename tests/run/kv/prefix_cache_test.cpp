// Prefixes that sequences share: what is found, what is not, and who gives pages up first.
#include <gtest/gtest.h>

#include <numeric>

#include "kvern/error.h"
#include "run/kv/page_budget.h"
#include "run/kv/page_pool.h"

namespace kvern::kv {
namespace {

using Ids = std::vector<int32_t>;

Ids counting(int32_t from, size_t count) {
  Ids out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

Ids values(const std::vector<PageId>& pages) {
  Ids out;
  for (const PageId page : pages) out.push_back(page.value);
  return out;
}

// All of `ids` in one step, from what the cache has on; the tokens found.
int64_t compute(PagePool& pool, int64_t seq, const Ids& ids) {
  PageBudget budget(pool);
  const Prefix prefix = pool.find_prefix(ids, static_cast<int64_t>(ids.size()) - 1);
  PageTable table = pool.table(SeqId(-1));
  if (prefix.tokens > 0) {
    budget.begin(prefix);
    table.groups = prefix.pages;
  }
  std::optional<Need> need = budget.grow(SeqId(seq), table, prefix.tokens,
                                         static_cast<int64_t>(ids.size()) - prefix.tokens);
  if (prefix.tokens > 0) need->begins = prefix;
  pool.exchange({}, {&*need, 1}).commit();
  pool.note_computed(SeqId(seq), prefix.tokens,
                     std::span(ids).subspan(static_cast<size_t>(prefix.tokens)));
  pool.check_invariant();
  return prefix.tokens;
}

void release(PagePool& pool, int64_t seq) {
  const SeqId id(seq);
  pool.exchange({&id, 1}, {}).commit();
  pool.check_invariant();
}

TEST(PrefixCache, FindsWholePagesOfAnEqualPrefix) {
  PagePool pool({{16, 4, 0}});
  EXPECT_EQ(compute(pool, 1, counting(0, 10)), 0);
  EXPECT_EQ(compute(pool, 2, counting(0, 10)), 8);  // while 1 still holds them
  EXPECT_EQ(values(pool.table(SeqId(2)).groups[0]), (Ids{0, 1, 3}));
  EXPECT_EQ(pool.counts()[0].leased, 4);  // shared ones count once
  release(pool, 1);
  release(pool, 2);
  EXPECT_EQ(pool.counts()[0].cached, 2);
  EXPECT_EQ(pool.counts()[0].free, 14);
  EXPECT_EQ(compute(pool, 3, counting(0, 9)), 8);
  EXPECT_EQ(compute(pool, 4, counting(0, 8)), 4);  // one token is computed always
  Ids other = counting(0, 10);
  other[5] = 99;
  EXPECT_EQ(compute(pool, 5, other), 4);
}

uint64_t always_equal(uint64_t, std::span<const int32_t>) {
  return 42;
}

TEST(PrefixCache, AHashThatCollidesGivesNoWrongPage) {
  PagePool pool({{64, 4, 0}}, always_equal);
  for (int64_t seq = 0; seq < 8; ++seq) {
    EXPECT_EQ(compute(pool, seq, counting(static_cast<int32_t>(100 * seq), 10)), 0);
  }
  for (int64_t seq = 0; seq < 8; ++seq) {
    const Ids ids = counting(static_cast<int32_t>(100 * seq), 10);
    const Prefix prefix = pool.find_prefix(ids, 10);
    EXPECT_EQ(prefix.tokens, 8);
    EXPECT_EQ(prefix.pages[0][0], pool.table(SeqId(seq)).groups[0][0]);
    EXPECT_EQ(prefix.pages[0][1], pool.table(SeqId(seq)).groups[0][1]);
  }
  // The second block of one behind the first of another is nobody's.
  Ids mixed = counting(0, 4);
  for (const int32_t id : counting(104, 6)) mixed.push_back(id);
  EXPECT_EQ(pool.find_prefix(mixed, 10).tokens, 4);
}

TEST(PrefixCache, GivesUpTheEndsOfTheOldestFirst) {
  PagePool pool({{8, 4, 0}});
  compute(pool, 1, counting(0, 16));
  release(pool, 1);
  compute(pool, 2, counting(100, 16));
  release(pool, 2);
  compute(pool, 3, counting(200, 8));  // the cache is full: two pages are given up
  EXPECT_EQ(pool.find_prefix(counting(0, 16), 16).tokens, 8);
  EXPECT_EQ(pool.find_prefix(counting(100, 16), 16).tokens, 16);
  release(pool, 3);
  EXPECT_EQ(compute(pool, 4, counting(0, 9)), 8);  // used again: now the youngest
  release(pool, 4);
  compute(pool, 5, counting(300, 20));
  EXPECT_EQ(pool.find_prefix(counting(0, 16), 16).tokens, 8);
  EXPECT_EQ(pool.find_prefix(counting(100, 16), 16).tokens, 0);
}

TEST(PrefixCache, WhatIsHeldIsNotGivenUp) {
  PagePool pool({{4, 4, 0}});
  compute(pool, 1, counting(0, 16));
  EXPECT_EQ(pool.available(), Ids{0});
  const Need need{SeqId(2), {1}};
  EXPECT_THROW(pool.exchange({}, {&need, 1}), InternalError);
  EXPECT_EQ(pool.find_prefix(counting(0, 16), 16).tokens, 16);
  pool.check_invariant();
}

TEST(PrefixCache, ATwiceComputedBlockIsKeptOnce) {
  PagePool pool({{16, 4, 0}});
  const Need needs[] = {{SeqId(1), {3}}, {SeqId(2), {3}}};  // in one step: neither sees the other's
  pool.exchange({}, needs).commit();
  pool.note_computed(SeqId(1), 0, counting(0, 12));
  pool.note_computed(SeqId(2), 0, counting(0, 12));
  pool.check_invariant();
  release(pool, 1);
  release(pool, 2);
  EXPECT_EQ(pool.counts()[0].cached, 3);
  EXPECT_EQ(pool.counts()[0].free, 13);
}

TEST(PrefixCache, AWindowGroupNeedsTheLastWindowAlone) {
  PagePool pool({{16, 4, 0}, {16, 4, 8}});
  compute(pool, 1, counting(0, 24));
  const Prefix prefix = pool.find_prefix(counting(0, 24), 24);
  EXPECT_EQ(prefix.tokens, 24);
  EXPECT_EQ(values(prefix.pages[0]), (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(prefix.pages[1]), (Ids{-1, -1, -1, -1, 4, 5}));  // token 24 sees 17 … 24
}

TEST(PrefixCache, APrefixWhoseWindowIsGoneIsNotTaken) {
  PagePool pool({{16, 4, 0}, {6, 4, 8}});
  compute(pool, 1, counting(0, 24));
  release(pool, 1);
  // Two pages of the window group go: the last ones, which went there first.
  const Need need{SeqId(2), {0, 2}};
  pool.exchange({}, {&need, 1}).commit();
  pool.check_invariant();
  EXPECT_EQ(pool.find_prefix(counting(0, 24), 24).tokens, 16);
}

TEST(PrefixCache, PageLengthsThatDifferShareInCommonBlocks) {
  PagePool pool({{32, 4, 0}, {8, 16, 0}});
  EXPECT_EQ(pool.block_tokens(), 16);
  compute(pool, 1, counting(0, 40));
  const Prefix prefix = pool.find_prefix(counting(0, 40), 40);
  EXPECT_EQ(prefix.tokens, 32);
  EXPECT_EQ(prefix.pages[0].size(), 8u);
  EXPECT_EQ(prefix.pages[1].size(), 2u);
}

TEST(PrefixCache, FlushingLeavesWhatIsHeld) {
  PagePool pool({{16, 4, 0}});
  compute(pool, 1, counting(0, 16));
  compute(pool, 2, counting(100, 16));
  release(pool, 2);
  pool.flush_cache();
  pool.check_invariant();
  EXPECT_EQ(pool.counts()[0].cached, 0);
  EXPECT_EQ(pool.counts()[0].leased, 4);
  EXPECT_EQ(pool.find_prefix(counting(0, 16), 16).tokens, 0);
  release(pool, 1);
  EXPECT_EQ(pool.counts()[0].free, 16);
}

TEST(PrefixCache, AForkWritesOnACopy) {
  PagePool pool({{16, 4, 0}});
  compute(pool, 1, counting(0, 10));
  PageBudget budget(pool);
  const std::optional<Prefix> prefix = pool.prefix_of(SeqId(1), 10);
  ASSERT_TRUE(prefix);
  budget.begin(*prefix);
  std::optional<Need> need = budget.grow(SeqId(2), PageTable{prefix->pages}, 10, 1);
  need->begins = prefix;
  Lease lease = pool.exchange({}, {&*need, 1});
  ASSERT_EQ(lease.page_copies().size(), 1u);
  EXPECT_EQ(lease.page_copies()[0].src, PageId(2));
  EXPECT_EQ(lease.page_copies()[0].dst, PageId(3));
  EXPECT_EQ(values(lease.table(SeqId(2)).groups[0]), (Ids{0, 1, 3}));
  lease.commit();
  pool.note_computed(SeqId(2), 10, counting(50, 1));
  pool.check_invariant();
  // The original is alone with its page again and needs no copy.
  PageBudget after(pool);
  EXPECT_FALSE(after.grow(SeqId(1), pool.table(SeqId(1)), 10, 1));
}

TEST(PrefixCache, WritingIntoACachedPageIsWritingOnACopyToo) {
  PagePool pool({{3, 4, 0}});
  compute(pool, 1, counting(0, 8));
  // Rewound to 6 tokens: page 1 is whole in the cache.
  const std::optional<Prefix> prefix = pool.prefix_of(SeqId(1), 6);
  const SeqId one(1);
  PageBudget budget(pool);
  budget.begin(*prefix);
  budget.release(one);
  std::optional<Need> need = budget.grow(SeqId(2), PageTable{prefix->pages}, 6, 1);
  need->begins = prefix;
  Lease lease = pool.exchange({&one, 1}, {&*need, 1});
  EXPECT_EQ(lease.page_copies().size(), 1u);
  lease.commit();
  pool.note_computed(SeqId(2), 6, counting(77, 1));
  pool.check_invariant();
  EXPECT_EQ(pool.find_prefix(counting(0, 8), 8).tokens, 8);
}

}  // namespace
}  // namespace kvern::kv
