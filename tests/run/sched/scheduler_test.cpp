// Random lives of a scheduler: whatever is submitted, cancelled, paused, broken, kept, forked, gone
// on with, rewound or flushed, in pools with and without windows, every sequence gets the tokens
// that it gets alone, or an end with a reason, and all pages come back.
#include "run/sched/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/run/fake_executor.h"

namespace kvern::sched {
namespace {

using Ids = std::vector<int32_t>;

int32_t next_token(const Ids& context) {
  int32_t sum = static_cast<int32_t>(context.size());
  for (const int32_t id : context) sum = (sum * 3 + id) % 97;
  return sum;
}

struct Outcome {
  Ids prompt;
  int32_t max_new_tokens = 0;
  Ids tokens;
  Ids exported;  // argmax of every wanted row
  Ids export_rows;
  Ids stop_ids;
  int32_t told = 0;  // of the prompt's log-probabilities
  bool prompt_logprobs = false, logprobs = false;
  FinishReason reason = FinishReason::kNone;
};

class Life {
 public:
  explicit Life(uint32_t seed) : random_(seed) {
    options_ = {8 + pick(40), 1 + pick(20), 1 + pick(8), 8};
    for (int g = 0; g <= pick(2); ++g) {
      groups_.push_back({6 + pick(30), 1 + pick(6), pick(3) == 0 ? 2 + pick(14) : 0});
    }
    scheduler_ = std::make_unique<Scheduler>(options_);
    pages_ = std::make_unique<kv::PagePool>(groups_);
    for (const kv::GroupConfig& group : groups_) {
      window_ =
          group.window_tokens == 0 || window_ == 0 ? 0 : std::max(window_, group.window_tokens);
    }
    executor_ = std::make_unique<testing::FakeExecutor>(groups_, next_token, 97);
  }

  void live(int steps) {
    for (int i = 0; i < steps; ++i) {
      act();
      step();
    }
    for (const auto& [id, outcome] : outcomes_) scheduler_->set_paused(id, false);
    uses_.clear();
    for (const auto& [id, outcome] : outcomes_) scheduler_->drop_context(id);
    int left = 20000;
    while (step() && left > 0) --left;
    EXPECT_GT(left, 0) << "the scheduler spins";
  }

  void check() const {
    EXPECT_TRUE(scheduler_->idle());
    pages_->flush_cache();
    for (const kv::PoolCounts& counts : pages_->counts()) EXPECT_EQ(counts.free, counts.total);
    for (const auto& [id, outcome] : outcomes_) check(outcome);
  }

  int finished_well() const {
    int count = 0;
    for (const auto& [id, o] : outcomes_) {
      count += o.reason == FinishReason::kLength || o.reason == FinishReason::kExported ? 1 : 0;
    }
    return count;
  }

 private:
  int32_t pick(int32_t below) {
    return static_cast<int32_t>(random_() % static_cast<uint32_t>(below));
  }

  void act() {
    const SeqId some(1 + pick(static_cast<int32_t>(next_id_)));
    switch (pick(12)) {
      case 0:
      case 1:
      case 2:
        return submit();
      case 3:
        return scheduler_->cancel(some);
      case 4:
        return scheduler_->set_paused(some, true);
      case 5:
      case 6:
        return scheduler_->set_paused(some, false);
      case 7:
        break_next_ = pick(8) == 0;
        return;
      case 8:
        if (uses_.erase(some) > 0) scheduler_->drop_context(some);
        return;
      case 9:
        if (pick(10) == 0) pages_->flush_cache();
        return;
      default:
        return;
    }
  }

  void submit() {
    Request request;
    request.id = SeqId(next_id_++);
    request.use_prefix_cache = pick(4) > 0;
    request.keep_context = pick(4) == 0;
    if (!outcomes_.empty() && pick(2) == 0)
      begin_as(SeqId(1 + pick(static_cast<int32_t>(next_id_) - 2)), request);
    for (int32_t n = 1 + pick(30); n-- > 0;) request.prompt_ids.push_back(pick(97));
    if (request.keep_context) uses_[request.id] = std::make_shared<int>();
    request.max_new_tokens = 1 + pick(12);
    request.recompute_context = pick(4) == 0;
    Outcome& outcome = outcomes_[request.id];
    if (pick(4) == 0) {
      request.purpose = step::Purpose::kExport;
      for (int32_t i = 0; i < static_cast<int32_t>(request.prompt_ids.size()); ++i) {
        if (pick(2) == 0) request.export_rows.push_back(i);
      }
      outcome.export_rows = request.export_rows;
    } else {
      request.prompt_logprobs = pick(4) == 0;
      request.num_logprobs = pick(2) - 1;
    }
    if (pick(3) == 0) request.stop_ids = {pick(97), pick(97), pick(97), pick(97)};
    outcome.stop_ids = request.stop_ids;
    outcome.prompt_logprobs = request.prompt_logprobs;
    outcome.logprobs = request.num_logprobs >= 0;
    outcome.prompt = request.prompt_ids;
    outcome.max_new_tokens = request.max_new_tokens;
    scheduler_->submit(std::move(request));
  }

  // Begins with the context of an earlier one: goes on from it, or happens to be equal.
  void begin_as(SeqId earlier, Request& request) {
    const auto it = outcomes_.find(earlier);
    if (it == outcomes_.end()) return;
    Ids context = it->second.prompt;
    context.insert(context.end(), it->second.tokens.begin(), it->second.tokens.end());
    if (context.size() > 60) return;
    if (pick(3) == 0)
      context.resize(static_cast<size_t>(pick(static_cast<int32_t>(context.size()))));
    request.prompt_ids = std::move(context);
    const auto use = uses_.find(earlier);
    if (use == uses_.end() || it->second.reason == FinishReason::kNone) return;
    request.base = earlier;
    request.base_use = use->second;
    if (pick(2) == 0) uses_.erase(use);  // not a fork
  }

  // Even alone; one page more than it holds may be needed for a copy of a shared last one.
  bool could_not_fit(int64_t tokens) const {
    return std::any_of(groups_.begin(), groups_.end(), [tokens](const kv::GroupConfig& group) {
      int64_t pages = (tokens + group.page_tokens - 1) / group.page_tokens;
      if (group.window_tokens > 0) {
        pages = std::min<int64_t>(pages, (group.window_tokens - 1) / group.page_tokens + 2);
      }
      return pages + 1 > group.num_pages;
    });
  }

  // What decides the token behind `context`.
  Ids seen(Ids context) const {
    if (window_ > 0 && context.size() > static_cast<size_t>(window_)) {
      context.erase(context.begin(), context.end() - window_);
    }
    return context;
  }

  bool step() {
    step::StepBatch batch = scheduler_->next(*pages_);
    if (!batch.empty()) run(batch);
    take_events();
    return !batch.empty();
  }

  void run(step::StepBatch& batch) {
    EXPECT_LE(batch.num_tokens(), options_.max_tokens_per_step);
    EXPECT_LE(static_cast<int32_t>(batch.sequences.size()), options_.max_sequences);
    try {
      auto lease = pages_->exchange(batch.releases(), batch.needs());
      batch.page_copies = lease.page_copies();
      const step::StepResult result = executor_->run(batch, lease);
      if (std::exchange(break_next_, false)) throw DeviceError("on purpose");
      lease.commit();
      for (const step::SequenceInput& part : batch.sequences) {
        if (part.cache) pages_->note_computed(part.seq, part.start, part.ids);
      }
      scheduler_->apply(batch, result);
    } catch (const DeviceError&) {
      scheduler_->abandon(batch, "on purpose");
    }
    pages_->check_invariant();
  }

  void take_events() {
    for (const Event& event : scheduler_->take_events()) {
      Outcome& outcome = outcomes_.at(event.seq);
      EXPECT_EQ(outcome.reason, FinishReason::kNone) << "an event after the last";
      if (event.kind == EventKind::kToken) {
        outcome.tokens.push_back(event.token);
        ASSERT_EQ(event.logprobs.size(), outcome.logprobs ? 1u : 0u);
        if (outcome.logprobs) {
          EXPECT_EQ(event.logprobs[0].token.id, event.token);
        }
      }
      if (event.kind == EventKind::kPromptLogprobs) {
        ASSERT_EQ(event.first_row, ++outcome.told);
        for (const TokenLogprobs& one : event.logprobs) {
          ASSERT_EQ(one.token.id, outcome.prompt.at(static_cast<size_t>(outcome.told++)));
        }
        --outcome.told;
      }
      if (event.kind == EventKind::kFinished) outcome.reason = event.reason;
      if (event.kind != EventKind::kLogits) continue;
      EXPECT_EQ(static_cast<size_t>(event.first_row), outcome.exported.size());
      for (size_t at = 0; at < event.logits.size(); at += 97) {
        const auto row = event.logits.begin() + static_cast<ptrdiff_t>(at);
        outcome.exported.push_back(static_cast<int32_t>(std::max_element(row, row + 97) - row));
      }
    }
  }

  void check(const Outcome& outcome) const {
    ASSERT_NE(outcome.reason, FinishReason::kNone);
    Ids context = outcome.prompt;
    for (const int32_t token : outcome.tokens) {
      ASSERT_EQ(token, next_token(seen(context)));
      context.push_back(token);
    }
    for (size_t r = 0; r < outcome.exported.size(); ++r) {
      const auto end = outcome.prompt.begin() + outcome.export_rows[r] + 1;
      ASSERT_EQ(outcome.exported[r], next_token(seen(Ids(outcome.prompt.begin(), end))));
    }
    const bool stopped =
        outcome.reason == FinishReason::kStop &&
        std::count(outcome.stop_ids.begin(), outcome.stop_ids.end(), next_token(seen(context))) > 0;
    EXPECT_EQ(outcome.reason == FinishReason::kStop, stopped);
    if (outcome.reason == FinishReason::kKvExhausted) {
      EXPECT_TRUE(could_not_fit(static_cast<int64_t>(context.size()))) << context.size();
    }
    if (outcome.reason == FinishReason::kLength || stopped) {
      const auto last = static_cast<int32_t>(outcome.prompt.size()) - 1;
      EXPECT_EQ(outcome.told, outcome.prompt_logprobs ? last : 0);
    }
    if (outcome.reason == FinishReason::kLength) {
      EXPECT_EQ(static_cast<int32_t>(outcome.tokens.size()), outcome.max_new_tokens);
    }
    if (outcome.reason == FinishReason::kExported) {
      EXPECT_EQ(outcome.exported.size(), outcome.export_rows.size());
    }
  }

  std::mt19937 random_;
  SchedulerOptions options_;
  std::vector<kv::GroupConfig> groups_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<kv::PagePool> pages_;
  std::unique_ptr<testing::FakeExecutor> executor_;
  std::map<SeqId, Outcome> outcomes_;
  std::map<SeqId, std::shared_ptr<int>> uses_;  // of kept contexts
  int32_t window_ = 1;                          // of the group that sees most; 0: one sees all
  int64_t next_id_ = 1;
  bool break_next_ = false;
};

TEST(Scheduler, RandomLivesEndWell) {
  int finished = 0;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed);
    life.live(/*steps=*/150);
    life.check();
    finished += life.finished_well();
  }
  EXPECT_GT(finished, 1000);  // the lives are not all cancelled ones
}

TEST(Scheduler, RefusesOptionsThatContradictEachOther) {
  EXPECT_THROW(Scheduler({4, 4, 8, 8}), Error);   // fewer tokens than sequences
  EXPECT_THROW(Scheduler({16, 4, 8, 4}), Error);  // fewer rows than sequences
  EXPECT_THROW(Scheduler({16, 0, 8, 8}), Error);  // no chunk
  EXPECT_THROW(Scheduler({16, 4, 0, 8}), Error);  // no sequence
}

}  // namespace
}  // namespace kvern::sched
