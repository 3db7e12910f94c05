// 10,000 random submits, cancels, stops, forks, extensions, rewinds, saves and flushes through the
// engine: every answer is the one that its context gives alone, and no page is lost.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "run/engine/kept_handle.h"
#include "tests/run/engine/fake_engine.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

// A tokenizer whose ids are one printable character each.
std::shared_ptr<const text::Tokenizer> letters() {
  text::TextModel model;
  model.kind = text::TokenizerKind::kByteLevelBpe;
  for (int i = 0; i < kFakeVocabulary; ++i)
    model.tokens.emplace_back(1, static_cast<char>('0' + i));
  model.token_types.assign(model.tokens.size(), text::TokenType::kNormal);
  return std::make_shared<const text::Tokenizer>(model);
}

struct Live {
  std::shared_ptr<Generation> generation;
  Ids prompt;
  bool kept = false, prompt_logprobs = false, logprobs = false;
};

struct Context {
  std::shared_ptr<const KeptHandle> kept;
  Ids ids;
};

constexpr int32_t kPages = 40, kPageTokens = 4;

class Crowd {
 public:
  explicit Crowd(uint32_t seed)
      : random_(seed),
        fake_(make_fake_engine(0, letters(), {{kPages, kPageTokens, 0}, {46, 4, 24}})) {}

  void act(int count) {
    for (int i = 0; i < count; ++i) act();
  }

  void end() {
    while (!live_.empty()) finish();
    contexts_.clear();
    fake_.engine->wait_idle();
    for (const kv::PoolCounts& counts : fake_.engine->stats().pages) EXPECT_EQ(counts.leased, 0);
    fake_.engine->flush_prefix_cache();
    for (const kv::PoolCounts& counts : fake_.engine->stats().pages) {
      EXPECT_EQ(counts.free, counts.total);
    }
  }

  int64_t preemptions() const { return fake_.engine->stats().scheduler.preemptions; }
  int64_t hits() const { return fake_.engine->stats().scheduler.prefix_hit_tokens; }
  int finished = 0, extended = 0, forked = 0, restored = 0, exhausted = 0;

 private:
  size_t pick(size_t below) { return random_() % below; }

  void act() {
    if (live_.size() >= 16) return finish();
    switch (pick(16)) {
      case 0:
        if (!live_.empty()) live_[pick(live_.size())].generation->cancel();
        return;
      case 1:  // the consumer goes away
        if (!live_.empty()) live_.erase(live_.begin() + static_cast<ptrdiff_t>(pick(live_.size())));
        return;
      case 2:
      case 3:
      case 4:
        if (!live_.empty()) finish();
        return;
      case 5:
        if (!contexts_.empty()) contexts_.erase(contexts_.begin());
        return;
      case 6:
        if (pick(20) == 0) fake_.engine->flush_prefix_cache();
        return;
      case 7:
        if (!contexts_.empty() && pick(10) == 0) save_and_restore();
        return;
      default:
        return submit();
    }
  }

  void submit() {
    RequestSpec spec = spec_of({}, static_cast<int32_t>(1 + pick(20)));
    if (!contexts_.empty() && pick(2) == 0) {
      begin_with(spec);
    } else if (pick(2) == 0) {
      spec.prompt_ids.assign(8 + pick(20), static_cast<int32_t>(pick(3)));  // others begin so too
    }
    for (size_t n = 1 + pick(30); n-- > 0;) {
      spec.prompt_ids.push_back(static_cast<int32_t>(pick(kFakeVocabulary)));
    }
    if (pick(50) == 0) {  // outgrows the pool
      spec.base = nullptr;
      spec.prompt_ids.assign((kPages - 3) * kPageTokens, static_cast<int32_t>(pick(3)));
      spec.max_new_tokens = 40;
    }
    if (pick(4) == 0) spec.stop_ids = {static_cast<int32_t>(pick(kFakeVocabulary))};
    if (pick(4) == 0) spec.stop_strings = {std::string(1, static_cast<char>('0' + pick(50)))};
    spec.use_prefix_cache = pick(5) > 0;
    spec.keep_context = pick(2) == 0;
    spec.prompt_logprobs = pick(6) == 0;
    spec.num_logprobs = static_cast<int32_t>(pick(2)) - 1;
    Live live{nullptr, spec.prompt_ids, spec.keep_context, spec.prompt_logprobs,
              spec.num_logprobs >= 0};
    live.generation = fake_.engine->submit(std::move(spec));
    live_.push_back(std::move(live));
  }

  void begin_with(RequestSpec& spec) {
    const size_t at = pick(contexts_.size());
    spec.prompt_ids = contexts_[at].ids;
    if (pick(3) == 0) spec.prompt_ids.resize(pick(spec.prompt_ids.size() + 1));  // rewound
    if (pick(2) == 0) {
      spec.base = contexts_[at].kept;
      ++forked;
    } else {
      spec.base = std::move(contexts_[at].kept);
      contexts_.erase(contexts_.begin() + static_cast<ptrdiff_t>(at));
      ++extended;
    }
  }

  void save_and_restore() {
    const std::string path = ::testing::TempDir() + "random_lives.kvc";
    Context& context = contexts_[pick(contexts_.size())];
    fake_.engine->save_context(*context.kept, context.ids, path);
    RestoredContext back = fake_.engine->restore_context(path);
    EXPECT_EQ(back.ids, context.ids);
    context.kept = std::move(back.kept);
    ++restored;
  }

  // Every log-probability that was asked for comes once, with its token.
  Event take_events(const Live& live) {
    Event event;
    size_t told = 1;
    while (live.generation->next(event)) {
      if (event.kind == EventKind::kToken) {
        EXPECT_EQ(event.logprobs.size(), live.logprobs ? 1u : 0u);
        if (live.logprobs) {
          EXPECT_EQ(event.logprobs[0].token.id, event.id);
        }
      }
      if (event.kind != EventKind::kPromptLogprobs) continue;
      EXPECT_EQ(static_cast<size_t>(event.first_position), told);
      for (const TokenLogprobs& one : event.logprobs) {
        EXPECT_EQ(one.token.id, live.prompt.at(told));
        EXPECT_EQ(one.token.logprob, -static_cast<float>(told++));
      }
    }
    if (event.finish_reason == FinishReason::kLength) {
      EXPECT_EQ(told, live.prompt_logprobs ? live.prompt.size() : 1u);
    }
    return event;
  }

  void finish() {
    Live live = std::move(live_.front());
    live_.pop_front();
    const Event last = take_events(live);
    ASSERT_NE(last.finish_reason, FinishReason::kFailed) << last.message;
    const Ids answer = live.generation->ids();
    ASSERT_EQ(answer, fake_answer(live.prompt, static_cast<int>(answer.size())));
    ++finished;
    if (last.finish_reason == FinishReason::kKvExhausted) {
      ++exhausted;
      // Alone in the pool it does not fit either, but for the copy of a shared last page.
      EXPECT_GT(live.prompt.size() + answer.size(), (kPages - 1) * kPageTokens);
    }
    if (!live.kept || last.finish_reason == FinishReason::kKvExhausted) return;
    Ids ids = live.prompt;
    ids.insert(ids.end(), answer.begin(), answer.end());
    if (ids.size() < 125) contexts_.push_back({live.generation->kept(), std::move(ids)});
    if (contexts_.size() > 6) contexts_.pop_front();
  }

  std::mt19937 random_;
  FakeEngine fake_;
  std::deque<Live> live_;
  std::deque<Context> contexts_;
};

TEST(RandomLives, NoPageIsLostAndEveryAnswerIsRight) {
  int finished = 0, extended = 0, forked = 0, restored = 0, exhausted = 0;
  int64_t preemptions = 0, hits = 0;
  for (uint32_t seed = 0; seed < 5 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Crowd crowd(seed);
    crowd.act(2000);
    crowd.end();
    finished += crowd.finished;
    extended += crowd.extended;
    forked += crowd.forked;
    restored += crowd.restored;
    exhausted += crowd.exhausted;
    preemptions += crowd.preemptions();
    hits += crowd.hits();
  }
  // All of it has happened often.
  EXPECT_GT(finished, 1000);
  EXPECT_GT(extended, 100);
  EXPECT_GT(forked, 100);
  EXPECT_GT(restored, 20);
  EXPECT_GT(exhausted, 2);
  EXPECT_GT(preemptions, 20);
  EXPECT_GT(hits, 1000);
}

}  // namespace
}  // namespace kvern::engine
