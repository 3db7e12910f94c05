#include "run/kv/page_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <new>
#include <random>

#include "kvern/error.h"
#include "tests/run/failing_allocator.h"

namespace kvern::kv {
namespace {

std::vector<GroupConfig> two_groups() {
  return {{8, 4, 0}, {5, 16, 32}};
}

std::vector<int32_t> ids(const std::vector<PageId>& pages) {
  std::vector<int32_t> out;
  for (const PageId page : pages) out.push_back(page.value);
  return out;
}

using Ids = std::vector<int32_t>;

TEST(PagePool, StartsFreeAndHandsOutLowPagesFirst) {
  PagePool pool(two_groups());
  EXPECT_EQ(pool.available(), (Ids{8, 5}));
  const Need need{SeqId(1), {2, 1}};
  Lease lease = pool.exchange({}, {&need, 1});
  EXPECT_EQ(ids(lease.table(SeqId(1)).groups[0]), (Ids{0, 1}));
  EXPECT_EQ(ids(lease.table(SeqId(1)).groups[1]), (Ids{0}));
  lease.commit();
  EXPECT_EQ(pool.available(), (Ids{6, 4}));
  EXPECT_EQ(pool.counts()[0].leased, 2);
  pool.check_invariant();
}

TEST(PagePool, AnUncommittedLeaseGivesBackWhatItTook) {
  PagePool pool(two_groups());
  const Need first{SeqId(1), {2, 1}};
  pool.exchange({}, {&first, 1}).commit();
  {
    const Need more[] = {{SeqId(1), {1, 1}}, {SeqId(2), {3, 2}}};
    const Lease lease = pool.exchange({}, more);
    EXPECT_EQ(pool.available(), (Ids{2, 1}));
  }
  EXPECT_EQ(pool.available(), (Ids{6, 4}));
  EXPECT_EQ(ids(pool.table(SeqId(1)).groups[0]), (Ids{0, 1}));
  EXPECT_TRUE(pool.table(SeqId(2)).groups[0].empty());
  pool.check_invariant();
}

TEST(PagePool, AnUncommittedLeaseTakesBackWhatItReleased) {
  PagePool pool(two_groups());
  const Need first{SeqId(1), {8, 1}};
  pool.exchange({}, {&first, 1}).commit();
  const SeqId release = SeqId(1);
  {
    // The pages of 1 go to 2, and some of them to 1 again.
    const Need needs[] = {{SeqId(2), {5, 0}}, {SeqId(1), {3, 0}}};
    const Lease lease = pool.exchange({&release, 1}, needs);
    EXPECT_EQ(lease.table(SeqId(1)).groups[0].size(), 3u);
  }
  EXPECT_EQ(ids(pool.table(SeqId(1)).groups[0]), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ids(pool.table(SeqId(1)).groups[1]), (Ids{0}));
  pool.check_invariant();
}

TEST(PagePool, ReleasedPagesServeTheSameExchange) {
  PagePool pool(two_groups());
  const Need first{SeqId(1), {8, 5}};
  pool.exchange({}, {&first, 1}).commit();
  const SeqId release = SeqId(1);
  const Need second{SeqId(2), {8, 5}};
  pool.exchange({&release, 1}, {&second, 1}).commit();
  EXPECT_TRUE(pool.table(SeqId(1)).groups[0].empty());
  EXPECT_EQ(pool.table(SeqId(2)).groups[0].size(), 8u);
  pool.check_invariant();
}

TEST(PagePool, AskingForTooMuchIsOurBugAndMovesNothing) {
  PagePool pool(two_groups());
  const Need needs[] = {{SeqId(1), {5, 0}}, {SeqId(2), {4, 0}}};
  EXPECT_THROW(pool.exchange({}, needs), InternalError);
  EXPECT_EQ(pool.available(), (Ids{8, 5}));
  const SeqId twice[] = {SeqId(3), SeqId(3)};
  EXPECT_THROW(pool.exchange(twice, {}), InternalError);
  const Need wrong_groups{SeqId(1), {1}};
  EXPECT_THROW(pool.exchange({}, {&wrong_groups, 1}), InternalError);
  pool.check_invariant();
}

TEST(PagePool, OneLeaseAtATime) {
  PagePool pool(two_groups());
  Lease open = pool.exchange({}, {});
  EXPECT_THROW(pool.exchange({}, {}), InternalError);
  open.commit();
  EXPECT_THROW(open.commit(), InternalError);
  pool.exchange({}, {}).commit();
}

// The model: who holds which pages, as plain maps. Every exchange, committed or not, must agree.
class ModelTest : public ::testing::TestWithParam<uint32_t> {};

struct Exchange {
  std::vector<SeqId> releases;
  std::vector<Need> needs;
};

Exchange random_exchange(std::mt19937& random, const PagePool& pool) {
  Exchange out;
  std::vector<int32_t> left = pool.available();
  for (int64_t seq = 0; seq < 6; ++seq) {
    if (random() % 4 != 0) continue;
    out.releases.emplace_back(seq);
    for (size_t g = 0; g < left.size(); ++g) {
      left[g] += static_cast<int32_t>(pool.table(SeqId(seq)).groups[g].size());
    }
  }
  for (int i = 0; i < 4; ++i) {
    Need need{SeqId(static_cast<int64_t>(random() % 6)), {}};
    for (int32_t& pages : left) {
      const auto take = static_cast<int32_t>(random() % 4);
      need.pages.push_back(std::min(take, pages));
      pages -= need.pages.back();
    }
    out.needs.push_back(need);
  }
  return out;
}

using Snapshot = std::map<int64_t, std::vector<std::vector<int32_t>>>;

Snapshot snapshot(const PagePool& pool) {
  Snapshot out;
  for (int64_t seq = 0; seq < 6; ++seq) {
    for (const auto& pages : pool.table(SeqId(seq)).groups) out[seq].push_back(ids(pages));
  }
  return out;
}

TEST_P(ModelTest, ExchangesKeepPrefixesCountsAndInvariant) {
  std::mt19937 random(GetParam());
  PagePool pool(two_groups());
  for (int round = 0; round < 300; ++round) {
    const Exchange exchange = random_exchange(random, pool);
    const Snapshot before = snapshot(pool);
    const std::vector<int32_t> free_before = pool.available();
    if (random() % 3 == 0) {
      { const Lease lease = pool.exchange(exchange.releases, exchange.needs); }
      EXPECT_EQ(snapshot(pool), before);
      EXPECT_EQ(pool.available(), free_before);
    } else {
      Snapshot expected = before;
      for (const SeqId seq : exchange.releases) expected[seq.value].assign(2, {});
      pool.exchange(exchange.releases, exchange.needs).commit();
      Snapshot after = snapshot(pool);
      for (const Need& need : exchange.needs) {
        for (size_t g = 0; g < 2; ++g) {
          auto& pages = expected[need.seq.value][g];
          const auto& got = after[need.seq.value][g];
          ASSERT_GE(got.size(), pages.size() + static_cast<size_t>(need.pages[g]));
          for (int32_t i = 0; i < need.pages[g]; ++i) pages.push_back(got[pages.size()]);
        }
      }
      EXPECT_EQ(after, expected);
    }
    pool.check_invariant();
    for (const PoolCounts& c : pool.counts()) EXPECT_EQ(c.free + c.cached + c.leased, c.total);
  }
}

// Wherever memory runs out, nothing has happened; and giving up a lease needs none.
TEST_P(ModelTest, ExchangesSurviveAllocationsThatFail) {
  std::mt19937 random(GetParam());
  PagePool pool(two_groups());
  int failed = 0;
  for (int round = 0; round < 300; ++round) {
    const Exchange exchange = random_exchange(random, pool);
    const Snapshot before = snapshot(pool);
    const std::vector<int32_t> free_before = pool.available();
    const bool commit = random() % 3 == 0;
    testing::allocations_left = commit ? -1 : static_cast<int>(random() % 16);
    try {
      Lease lease = pool.exchange(exchange.releases, exchange.needs);
      testing::allocations_left = commit ? -1 : 0;
      if (commit) lease.commit();
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    testing::allocations_left = -1;
    pool.check_invariant();
    if (commit) continue;
    EXPECT_EQ(snapshot(pool), before);
    EXPECT_EQ(pool.available(), free_before);
  }
  EXPECT_GT(failed, 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, ::testing::Range(0u, 20u));

}  // namespace
}  // namespace kvern::kv
