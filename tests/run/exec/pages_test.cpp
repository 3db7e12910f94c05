// What an executor does with pages: copies before a step, leaves out those behind a window, gives
// and takes their bytes.
#include <gtest/gtest.h>

#include "device/cpu/cpu_device.h"
#include "run/exec/plan_executor.h"
#include "run/kv/page_budget.h"
#include "tests/run/exec/tiny_plan.h"

namespace kvern::exec {
namespace {

using Ids = std::vector<int32_t>;
using kv::SeqId;

constexpr int32_t kWindow = 6;

std::shared_ptr<const plan::PlanFile> windowed(DType storage) {
  TinyPlan tiny(storage);
  std::vector<plan::KvSlot> slots = tiny.plan.kv_layout.slots();
  slots[0].retention = plan::Retention::kWindow;
  slots[0].window_tokens = kWindow;
  tiny.plan.kv_layout = plan::KvLayout::make(slots, kTinyPageTokens);
  for (plan::Instruction& instruction : tiny.plan.program.instructions) {
    if (instruction.family != kernels::KvAttentionFamily::kName) continue;
    auto desc = from_fields<kernels::KvAttentionDesc>(instruction.desc);
    desc.mask = kernels::AttentionMask::kWindow;
    desc.window = kWindow;
    instruction.desc = to_fields(desc);
  }
  return tiny.file();
}

class Runner {
 public:
  Runner(std::shared_ptr<const plan::PlanFile> file, int32_t window_tokens)
      : pages_({{32, kTinyPageTokens, window_tokens}}) {
    PlanExecutorOptions options;
    options.num_pages = {32};
    executor_ = std::make_unique<PlanExecutor>(
        std::move(file), std::shared_ptr<device::Device>(device::create_cpu_device(2)), options);
  }

  // Logits of each of `ids`, which `seq` computes behind its first `start` tokens.
  std::vector<float> run(SeqId seq, int32_t start, const Ids& ids,
                         const std::optional<kv::Prefix>& begins = {}) {
    step::StepBatch batch;
    step::SequenceInput& part = batch.sequences.emplace_back();
    part.seq = seq;
    part.start = start;
    part.ids = ids;
    part.count = static_cast<int32_t>(ids.size());
    part.logits = step::LogitsWanted::kList;
    part.purpose = step::Purpose::kExport;
    for (int32_t i = 0; i < part.count; ++i) part.logits_rows.push_back(i);
    kv::PageBudget budget(pages_);
    kv::PageTable table = pages_.table(seq);
    if (begins) {
      budget.begin(*begins);
      table.groups = begins->pages;
    }
    std::optional<kv::Need> need = budget.grow(seq, table, start, part.count);
    if (begins && !need) need = kv::Need{seq, {0}};
    if (begins) need->begins = begins;
    if (need) batch.page_needs.push_back(*need);
    auto lease = pages_.exchange({}, batch.needs());
    batch.page_copies = lease.page_copies();
    num_copies += batch.page_copies.size();
    step::StepResult result = executor_->run(batch, lease);
    lease.commit();
    return result.sequences.at(0).logits;
  }

  kv::PagePool& pages() { return pages_; }
  PlanExecutor& executor() { return *executor_; }
  size_t num_copies = 0;

 private:
  kv::PagePool pages_;
  std::unique_ptr<PlanExecutor> executor_;
};

const Ids kTokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6};
constexpr DType kStorages[] = {DType::kF32, DType::kF16, DType::kBf16, DType::kI8, DType::kF8E4M3};

Ids part(size_t begin, size_t end) {
  return {kTokens.begin() + static_cast<ptrdiff_t>(begin),
          kTokens.begin() + static_cast<ptrdiff_t>(end)};
}

TEST(ExecutorPages, AForkWritesBesideTheOriginal) {
  for (const DType storage : kStorages) {
    TinyPlan tiny(storage);
    const auto file = tiny.file();
    Runner runner(file, 0), alone(file, 0);
    const std::vector<float> whole = alone.run(SeqId(1), 0, part(0, 21));
    runner.run(SeqId(1), 0, part(0, 10));
    runner.run(SeqId(2), 10, {30, 30, 30}, runner.pages().prefix_of(SeqId(1), 10));
    EXPECT_EQ(runner.num_copies, 1u);
    const std::vector<float> rest = runner.run(SeqId(1), 10, part(10, 21));
    EXPECT_EQ(rest, std::vector<float>(whole.begin() + 10 * kTinyVocabulary, whole.end()));
    const std::vector<float> third =
        runner.run(SeqId(3), 10, part(10, 21), runner.pages().prefix_of(SeqId(2), 10));
    EXPECT_EQ(third, rest);
  }
}

TEST(ExecutorPages, PagesBehindTheWindowAreNotMissed) {
  for (const DType storage : kStorages) {
    const auto file = windowed(storage);
    Runner keeps(file, 0);  // the pool knows of no window: every page stays
    const std::vector<float> whole = keeps.run(SeqId(1), 0, kTokens);
    for (const int32_t chunk : {1, 3, 4, 9}) {
      Runner drops(file, kWindow);
      std::vector<float> got;
      for (size_t at = 0; at < kTokens.size(); at += static_cast<size_t>(chunk)) {
        const size_t end = std::min(kTokens.size(), at + static_cast<size_t>(chunk));
        for (const float logit : drops.run(SeqId(1), static_cast<int32_t>(at), part(at, end))) {
          got.push_back(logit);
        }
      }
      EXPECT_EQ(got, whole) << "chunk " << chunk;
      EXPECT_FALSE(drops.pages().table(SeqId(1)).groups[0][0].valid());
      EXPECT_LE(drops.pages().counts()[0].leased, (kWindow - 1 + chunk + 3) / 4 + 1);
    }
  }
}

TEST(ExecutorPages, APageThatIsSeenAndMissingIsRefused) {
  const auto file = windowed(DType::kF32);
  Runner runner(file, /*window_tokens=*/2);  // the pool gives up more than the plan allows
  runner.run(SeqId(1), 0, part(0, 8));
  EXPECT_THROW(runner.run(SeqId(1), 8, part(8, 9)), InternalError);
}

// Two pages that begin alike: nothing of what differs goes out.
TEST(ExecutorPages, OnlyTheTokensThatAreWantedGoOut) {
  for (const DType storage : kStorages) {
    TinyPlan tiny(storage);
    Runner runner(tiny.file(), 0);
    runner.run(SeqId(1), 0, {3, 1, 4, 1});
    runner.run(SeqId(2), 0, {3, 1, 4, 5});
    std::vector<std::byte> one(static_cast<size_t>(runner.executor().page_bytes(0))), two = one;
    const auto take = [&](PageTokens tokens) {
      runner.executor().export_page(0, runner.pages().table(SeqId(1)).groups[0][0], tokens, one);
      runner.executor().export_page(0, runner.pages().table(SeqId(2)).groups[0][0], tokens, two);
    };
    take({0, 4});
    EXPECT_NE(one, two);
    const std::vector<std::byte> whole = one;
    take({1, 3});
    EXPECT_EQ(one, two);
    EXPECT_NE(one, whole);
    take({2, 2});
    EXPECT_EQ(one, std::vector<std::byte>(one.size()));
  }
}

TEST(ExecutorPages, TheirBytesGoToAnotherExecutor) {
  for (const DType storage : kStorages) {
    TinyPlan tiny(storage);
    const auto file = tiny.file();
    Runner from(file, 0), to(file, 0);
    const std::vector<float> whole = from.run(SeqId(1), 0, kTokens);
    to.run(SeqId(9), 0, part(0, 5));  // other page ids
    const kv::Need need{SeqId(1), {3}};
    to.pages().exchange({}, {&need, 1}).commit();
    std::vector<std::byte> bytes(static_cast<size_t>(from.executor().page_bytes(0)));
    for (size_t i = 0; i < 3; ++i) {
      const PageTokens tokens{0, i < 2 ? 4 : 2};  // 10 of them
      from.executor().export_page(0, from.pages().table(SeqId(1)).groups[0][i], tokens, bytes);
      to.executor().import_page(0, to.pages().table(SeqId(1)).groups[0][i], bytes);
    }
    EXPECT_EQ(to.run(SeqId(1), 10, part(10, 21)),
              std::vector<float>(whole.begin() + 10 * kTinyVocabulary, whole.end()));
    EXPECT_THROW(from.executor().export_page(0, kv::PageId(32), {0, 4}, bytes), InternalError);
    EXPECT_THROW(from.executor().export_page(1, kv::PageId(0), {0, 4}, bytes), InternalError);
    EXPECT_THROW(to.executor().import_page(0, kv::PageId(), bytes), InternalError);
  }
}

}  // namespace
}  // namespace kvern::exec
