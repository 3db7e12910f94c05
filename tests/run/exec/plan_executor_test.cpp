#include "run/exec/plan_executor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "device/cpu/cpu_device.h"
#include "tests/run/exec/tiny_plan.h"

namespace kvern::exec {
namespace {

using Ids = std::vector<int32_t>;
using step::LogitsWanted;
using step::Purpose;

struct Prompt {
  kv::SeqId seq;
  Ids ids;
};

step::SequenceInput part_of(const Prompt& prompt, int32_t start, int32_t count) {
  step::SequenceInput part;
  part.seq = prompt.seq;
  part.start = start;
  part.count = count;
  part.ids.assign(prompt.ids.begin() + start, prompt.ids.begin() + start + count);
  return part;
}

// An executor with its pool; steps are built by hand.
class Runner {
 public:
  explicit Runner(std::shared_ptr<const plan::PlanFile> file, PlanExecutorOptions options = {}) {
    options.num_pages = {64};
    executor_ = std::make_unique<PlanExecutor>(
        std::move(file), std::shared_ptr<device::Device>(device::create_cpu_device(2)), options);
  }

  step::StepResult run(step::StepBatch batch) {
    for (const step::SequenceInput& part : batch.sequences) {
      const auto held = static_cast<int32_t>(pages_.table(part.seq).groups[0].size());
      const int32_t end = part.start + part.count;
      const int32_t needed = (end + kTinyPageTokens - 1) / kTinyPageTokens;
      if (needed > held) batch.page_needs.push_back({part.seq, {needed - held}});
    }
    auto lease = pages_.exchange(batch.releases(), batch.needs());
    step::StepResult result = executor_->run(batch, lease);
    lease.commit();
    return result;
  }

  // Logits of every row of `prompt`, computed `chunk` tokens at a time.
  std::vector<float> logits(const Prompt& prompt, int32_t chunk) {
    std::vector<float> out;
    const auto length = static_cast<int32_t>(prompt.ids.size());
    for (int32_t start = 0; start < length; start += chunk) {
      step::StepBatch batch;
      step::SequenceInput part = part_of(prompt, start, std::min(chunk, length - start));
      part.logits = LogitsWanted::kList;
      part.purpose = Purpose::kExport;
      for (int32_t i = 0; i < part.count; ++i) part.logits_rows.push_back(i);
      batch.sequences.push_back(part);
      const step::StepResult result = run(batch);
      const auto& logits = result.sequences.at(0).logits;
      out.insert(out.end(), logits.begin(), logits.end());
    }
    return out;
  }

  PlanExecutor& executor() { return *executor_; }

 private:
  kv::PagePool pages_{{{64, kTinyPageTokens, 0}}};
  std::unique_ptr<PlanExecutor> executor_;
};

const Prompt kPrompt{kv::SeqId(1), {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3}};

int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

TEST(PlanExecutor, ChunksGiveTheBitsOfTheWhole) {
  for (const DType storage : {DType::kF32, DType::kBf16, DType::kI8}) {
    TinyPlan tiny(storage);
    const auto file = tiny.file();
    const std::vector<float> whole = Runner(file).logits(kPrompt, 64);
    ASSERT_EQ(whole.size(), kPrompt.ids.size() * kTinyVocabulary);
    EXPECT_NE(whole[0], whole[kTinyVocabulary]);
    for (const int32_t chunk : {1, 3, 4, 7}) {
      EXPECT_EQ(Runner(file).logits(kPrompt, chunk), whole) << "chunk " << chunk;
    }
  }
}

TEST(PlanExecutor, PlainAndFastKernelsAgree) {
  TinyPlan tiny;
  const auto file = tiny.file();
  PlanExecutorOptions plain;
  plain.plain_kernels = true;
  Runner oracle(file, plain);
  const std::vector<float> wanted = oracle.logits(kPrompt, 64);
  const std::vector<float> got = Runner(file).logits(kPrompt, 64);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-3) << i;
  for (const InstructionInfo& info : oracle.executor().instructions()) {
    EXPECT_NE(info.implementation.find("plain"), std::string::npos) << info.implementation;
  }
}

TEST(PlanExecutor, ACopyOfTheWeightsGivesTheSame) {
  TinyPlan tiny;
  const auto file = tiny.file();
  PlanExecutorOptions copy;
  copy.weights_memory = WeightsMemory::kCopy;
  EXPECT_EQ(Runner(file, copy).logits(kPrompt, 5), Runner(file).logits(kPrompt, 5));
}

#if !defined(__SANITIZE_ADDRESS__)
// In a process of its own. Without the check the system refuses some later allocation, or kills.
TEST(PlanExecutorDeathTest, APoolBeyondTheProcesssLimitIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TinyPlan tiny;
  const auto load = [](const std::shared_ptr<const plan::PlanFile>& file, uint64_t left_bytes) {
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    const uint64_t most = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + left_bytes;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(3);
    PlanExecutorOptions options;
    options.num_pages = {
        static_cast<int32_t>((size_t{200} << 20) / file->plan().kv_layout.groups()[0].page_bytes)};
    try {
      const PlanExecutor executor(
          file, std::shared_ptr<device::Device>(device::create_cpu_device(1)), options);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(error.code() == Code::kOutOfMemory ? 1 : 2);
    }
    std::exit(0);
  };
  const auto file = tiny.file();
  EXPECT_EXIT(load(file, uint64_t{100} << 20), ::testing::ExitedWithCode(1),
              "limits of this process");
  EXPECT_EXIT(load(file, uint64_t{400} << 20), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(PlanExecutor, SamplesTheLargestLogitBesideOtherPurposes) {
  TinyPlan tiny;
  const auto file = tiny.file();
  const std::vector<float> alone = Runner(file).logits(kPrompt, 64);
  const size_t last = (kPrompt.ids.size() - 1) * kTinyVocabulary;

  Runner runner(file);
  const auto length = static_cast<int32_t>(kPrompt.ids.size());
  step::StepBatch batch;
  step::SequenceInput exported = part_of({kv::SeqId(7), kPrompt.ids}, 0, 6);
  exported.logits = LogitsWanted::kList;
  exported.logits_rows = {0, 5};
  exported.purpose = Purpose::kExport;
  step::SequenceInput sampled = part_of(kPrompt, 0, length);
  sampled.logits = LogitsWanted::kLast;
  step::SequenceInput silent = part_of({kv::SeqId(9), kPrompt.ids}, 0, 2);
  batch.sequences = {sampled, exported, silent, sampled};
  batch.sequences[3].seq = kv::SeqId(8);
  const step::StepResult result = runner.run(batch);
  const int32_t wanted = argmax(std::span(alone).subspan(last));
  EXPECT_EQ(result.sequences[0].sampled, wanted);
  EXPECT_EQ(result.sequences[3].sampled, wanted);
  EXPECT_FALSE(result.sequences[1].sampled.has_value());
  EXPECT_FALSE(result.sequences[2].sampled.has_value());
  const std::vector<float>& rows = result.sequences[1].logits;
  ASSERT_EQ(rows.size(), 2u * kTinyVocabulary);
  EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + kTinyVocabulary, alone.begin()));
  EXPECT_TRUE(
      std::equal(rows.begin() + kTinyVocabulary, rows.end(), alone.begin() + 5 * kTinyVocabulary));
}

TEST(PlanExecutor, OnlySequencesThatSampleHaveASample) {
  TinyPlan tiny;
  Runner runner(tiny.file());
  step::StepBatch batch;
  step::SequenceInput logprobs = part_of({kv::SeqId(7), kPrompt.ids}, 0, 6);
  logprobs.logits = LogitsWanted::kList;
  logprobs.logits_rows = {5};
  logprobs.purpose = Purpose::kLogprobs;
  logprobs.targets = {3};
  step::SequenceInput listed = part_of({kv::SeqId(8), kPrompt.ids}, 0, 6);
  listed.logits = LogitsWanted::kList;
  listed.logits_rows = {5};
  batch.sequences = {logprobs, listed};
  const step::StepResult result = runner.run(batch);
  EXPECT_FALSE(result.sequences[0].sampled.has_value());
  EXPECT_FALSE(result.sequences[1].sampled.has_value());
}

TEST(PlanExecutor, ReservesTheLargestStepAtLoad) {
  TinyPlan tiny;
  PlanExecutorOptions options;
  options.max_tokens = 40;
  options.max_wanted_rows = 8;
  Runner runner(tiny.file(), options);
  // Both counts rounded up to 16 rows.
  EXPECT_EQ(runner.executor().arena_bytes(), 48 * tiny.plan.program.token_arena_bytes_per_row +
                                                 16 * tiny.plan.program.wanted_arena_bytes_per_row);
  runner.logits(kPrompt, 8);
  EXPECT_EQ(runner.executor().arena_bytes(), 48 * tiny.plan.program.token_arena_bytes_per_row +
                                                 16 * tiny.plan.program.wanted_arena_bytes_per_row);
}

TEST(PlanExecutor, RefusesMoreMemoryThanTheMachineHas) {
  const auto refused = [](const TinyPlan& tiny, int32_t num_pages) {
    TinyPlan copy = tiny;
    PlanExecutorOptions options;
    options.num_pages = {num_pages};
    try {
      PlanExecutor(copy.file(), std::shared_ptr<device::Device>(device::create_cpu_device(1)),
                   options);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.what();
    }
  };
  TinyPlan wide;  // a plan may say anything up to 2^40 bytes per row
  wide.plan.program.token_arena_bytes_per_row = int64_t{1} << 40;
  refused(wide, 4);
  TinyPlan wanted;
  wanted.plan.program.wanted_arena_bytes_per_row = int64_t{1} << 40;
  refused(wanted, 4);
  refused(TinyPlan(), INT32_MAX);
}

TEST(PlanExecutor, ContinuesFromItsOwnSample) {
  TinyPlan tiny;
  Runner runner(tiny.file());
  step::StepBatch batch;
  batch.sequences = {part_of(kPrompt, 0, 5)};
  batch.sequences[0].logits = LogitsWanted::kLast;
  const int32_t first = runner.run(batch).sequences[0].sampled.value();
  step::StepBatch next;
  step::SequenceInput part;
  part.seq = kPrompt.seq;
  part.input = step::InputKind::kPreviousSample;
  part.start = 5;
  part.count = 1;
  part.logits = LogitsWanted::kLast;
  next.sequences = {part};
  const int32_t second = runner.run(next).sequences[0].sampled.value();

  Prompt longer = {kv::SeqId(2), Ids(kPrompt.ids.begin(), kPrompt.ids.begin() + 5)};
  longer.ids.push_back(first);
  step::StepBatch whole;
  whole.sequences = {part_of(longer, 0, 6)};
  whole.sequences[0].logits = LogitsWanted::kLast;
  EXPECT_EQ(runner.run(whole).sequences[0].sampled, second);
}

TEST(PlanExecutor, RefusesBrokenBatches) {
  TinyPlan tiny;
  Runner runner(tiny.file());
  const auto breaks = [&](auto change) {
    step::StepBatch batch;
    batch.sequences = {part_of(kPrompt, 0, 5)};
    change(batch.sequences[0], batch);
    EXPECT_THROW(runner.run(batch), InternalError);
  };
  breaks([](auto& part, auto&) { part.ids[2] = kTinyVocabulary; });
  breaks([](auto& part, auto&) { part.ids[2] = -1; });
  breaks([](auto& part, auto&) { part.ids.pop_back(); });
  breaks([](auto& part, auto&) {
    part.logits = LogitsWanted::kList;
    part.logits_rows = {5};
  });
  breaks([](auto& part, auto&) {
    part.input = step::InputKind::kPreviousSample;
    part.count = 1;
  });
  breaks([](auto&, auto& batch) { batch.page_copies = {{0, kv::PageId(0), kv::PageId(64)}}; });
}

}  // namespace
}  // namespace kvern::exec
