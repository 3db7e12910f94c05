// The engine on the fake executor: threads, events, failures. Numbers come from tiny plans
// elsewhere.
#include "run/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "run/engine/kept_handle.h"
#include "tests/run/engine/fake_engine.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

TEST(Engine, AnswersOneRequest) {
  FakeEngine fake = make_fake_engine();
  const auto generation = fake.engine->submit(spec_of({1, 2, 3}, 5));
  Ids ids;
  Event event;
  while (generation->next(event) && event.kind == EventKind::kToken) ids.push_back(event.id);
  EXPECT_EQ(event.kind, EventKind::kFinished);
  EXPECT_EQ(event.finish_reason, FinishReason::kLength);
  EXPECT_FALSE(generation->next(event));
  EXPECT_EQ(ids, fake_answer({1, 2, 3}, 5));
  EXPECT_EQ(generation->ids(), ids);
  EXPECT_EQ(generation->timings().prompt_tokens, 3);
  EXPECT_EQ(generation->timings().answer_tokens, 5);
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

// A prompt that fits one step: the step's own time is prefill, not waiting.
TEST(Engine, PrefillTakesTheTimeOfItsStep) {
  FakeEngine fake = make_fake_engine();
  fake.executor->on_run = [](const step::StepBatch&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const auto generation = fake.engine->submit(spec_of({1, 2, 3}, 1));
  drain(*generation);
  EXPECT_GE(generation->timings().prefill_ms, 20.0);
}

TEST(Engine, ManyCallersGetTheAnswersTheyGetAlone) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/24);  // tight: sequences are preempted
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 12; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 5; ++round) {
        const Ids prompt(static_cast<size_t>(1 + (caller * 7 + round * 3) % 20), caller);
        const auto generation = fake.engine->submit(spec_of(prompt, 10 + round));
        EXPECT_EQ(drain(*generation).finish_reason, FinishReason::kLength);
        EXPECT_EQ(generation->ids(), fake_answer(prompt, 10 + round));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

TEST(Engine, RecomputingTheContextChangesNothing) {
  FakeEngine fake = make_fake_engine();
  RequestSpec spec = spec_of({4, 5, 6, 7, 8, 9, 10, 11, 12}, 6);
  spec.recompute_context = true;
  const auto generation = fake.engine->submit(spec);
  drain(*generation);
  EXPECT_EQ(generation->ids(), fake_answer({4, 5, 6, 7, 8, 9, 10, 11, 12}, 6));
}

TEST(Engine, ADroppedGenerationIsCancelled) {
  FakeEngine fake = make_fake_engine();
  fake.engine->submit(spec_of({1}, 200)).reset();
  const auto cancelled = fake.engine->submit(spec_of({2}, 200));
  cancelled->cancel();
  Event event;
  while (cancelled->next(event)) {
  }
  EXPECT_EQ(event.finish_reason, FinishReason::kCancelled);
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

TEST(Engine, StopsAtAStopId) {
  FakeEngine fake = make_fake_engine();
  const Ids answer = fake_answer({3, 1}, 9);
  RequestSpec spec = spec_of({3, 1}, 9);
  spec.stop_ids = {answer[4]};
  const auto generation = fake.engine->submit(spec);
  EXPECT_EQ(drain(*generation).finish_reason, FinishReason::kStop);
  const auto first = std::find(answer.begin(), answer.end(), answer[4]);
  EXPECT_EQ(generation->ids(), Ids(answer.begin(), first));
}

TEST(Engine, RefusesInTheCallersThread) {
  FakeEngine fake = make_fake_engine();
  const auto refuses = [&](RequestSpec spec, Code code) {
    try {
      fake.engine->submit(std::move(spec));
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  };
  refuses(spec_of({}, 1), Code::kInvalidRequest);
  refuses(spec_of({kFakeVocabulary}, 1), Code::kInvalidRequest);
  refuses(spec_of({1, -1}, 1), Code::kInvalidRequest);
  refuses(spec_of({1}, -1), Code::kInvalidRequest);
  refuses(spec_of(Ids(1000, 1), 1), Code::kInvalidRequest);  // more than all pages hold
  RequestSpec stop = spec_of({1}, 1);
  stop.stop_strings = {"x"};  // no tokenizer
  refuses(stop, Code::kInvalidRequest);
  RequestSpec rows = spec_of({1, 2}, 0);
  rows.purpose = step::Purpose::kExport;
  rows.export_rows = {1, 1};
  refuses(rows, Code::kInvalidRequest);
}

TEST(Engine, FailsARequestThatOutgrowsThePages) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/4);
  const auto generation = fake.engine->submit(spec_of({1, 2, 3}, 50));
  const Event last = drain(*generation);
  EXPECT_EQ(last.kind, EventKind::kFailed);
  EXPECT_EQ(last.finish_reason, FinishReason::kKvExhausted);
  EXPECT_FALSE(last.message.empty());
  EXPECT_EQ(generation->ids().size(), 14u);  // 16 tokens of pages; the last sample needs none
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

TEST(Engine, ABrokenStepFailsItsRequestsAndTheEngineLivesOn) {
  FakeEngine fake = make_fake_engine();
  int steps = 0;
  fake.executor->on_run = [&](const step::StepBatch&) {
    if (++steps == 3) throw InternalError("third step");
  };
  const auto broken = fake.engine->submit(spec_of({1, 2}, 9));
  const Event last = drain(*broken);
  EXPECT_EQ(last.kind, EventKind::kFailed);
  EXPECT_NE(last.message.find("third step"), std::string::npos);
  const auto after = fake.engine->submit(spec_of({1, 2}, 9));
  EXPECT_EQ(drain(*after).finish_reason, FinishReason::kLength);
  EXPECT_EQ(after->ids(), fake_answer({1, 2}, 9));
  EXPECT_TRUE(fake.engine->stats().healthy);
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

TEST(Engine, ABrokenDeviceMakesItUnhealthy) {
  FakeEngine fake = make_fake_engine();
  fake.executor->on_run = [](const step::StepBatch&) { throw DeviceError("gone"); };
  const auto generation = fake.engine->submit(spec_of({1, 2}, 9));
  EXPECT_EQ(drain(*generation).kind, EventKind::kFailed);
  fake.engine->wait_idle();
  EXPECT_FALSE(fake.engine->stats().healthy);
  try {
    fake.engine->submit(spec_of({1}, 1));
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDevice);
  }
}

TEST(Engine, AStepThatOnlyGivesPagesBackAndFailsIsNotTriedForEver) {
  FakeEngine fake = make_fake_engine();
  fake.executor->on_run = [](const step::StepBatch& batch) {
    if (batch.sequences.empty()) throw InternalError("no release");
  };
  drain(*fake.engine->submit(spec_of({1, 2}, 2)));
  fake.engine->wait_idle();
  EXPECT_FALSE(fake.engine->stats().healthy);
}

TEST(Engine, ASlowConsumerPausesOnlyItself) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/2048);
  const auto slow = fake.engine->submit(spec_of({1}, 2000));
  const auto quick = fake.engine->submit(spec_of({2}, 1500));
  EXPECT_EQ(drain(*quick).finish_reason, FinishReason::kLength);
  EXPECT_EQ(quick->ids(), fake_answer({2}, 1500));
  EXPECT_LE(slow->ids().size(), 256u);
  EXPECT_EQ(drain(*slow).finish_reason, FinishReason::kLength);
  EXPECT_EQ(slow->ids(), fake_answer({1}, 2000));
}

// Every place and most pages are held by consumers that read nothing until the last one is done.
TEST(Engine, SlowConsumersKeepNobodyWaiting) {
  for (const int32_t num_pages : {2048, 9 * 70}) {
    FakeEngine fake = make_fake_engine(num_pages);
    std::vector<std::shared_ptr<Generation>> slow;
    for (int i = 0; i < 8; ++i) slow.push_back(fake.engine->submit(spec_of({i}, 400)));
    const auto last = fake.engine->submit(spec_of({9}, 400));
    EXPECT_EQ(drain(*last).finish_reason, FinishReason::kLength);
    EXPECT_EQ(last->ids(), fake_answer({9}, 400));
    for (int i = 8; i-- > 0;) {
      EXPECT_EQ(drain(*slow[static_cast<size_t>(i)]).finish_reason, FinishReason::kLength);
      EXPECT_EQ(slow[static_cast<size_t>(i)]->ids(), fake_answer({i}, 400));
    }
    fake.engine->wait_idle();
    expect_all_pages_free(*fake.engine);
  }
}

// One step stands still: what comes meanwhile waits, as far as there are places.
TEST(Engine, MoreThanMayWaitAreRefusedByName) {
  FakeEngine fake = make_fake_engine(64, nullptr, {}, /*max_waiting=*/2);
  RequestSpec first = spec_of({1, 2}, 3);
  first.keep_context = true;
  std::shared_ptr<const KeptHandle> base;
  {
    const auto generation = fake.engine->submit(first);
    drain(*generation);
    base = generation->kept();
  }
  std::mutex gate;
  std::unique_lock closed(gate);
  std::atomic<bool> stands = false;
  fake.executor->on_run = [&](const step::StepBatch&) {
    stands = true;
    const std::scoped_lock wait(gate);
  };
  std::vector<std::shared_ptr<Generation>> taken = {fake.engine->submit(spec_of({7}, 2))};
  while (!stands) std::this_thread::yield();
  // The one that runs is told of when its step ends: until then it has one of the places.
  taken.push_back(fake.engine->submit(spec_of({8}, 2)));
  try {
    fake.engine->submit(spec_of({1, 2}, 3), base);
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidRequest);
    EXPECT_NE(std::string(error.what()).find("max_waiting"), std::string::npos) << error.what();
  }
  ASSERT_NE(base, nullptr);  // what was refused has taken nothing
  closed.unlock();
  for (const auto& generation : taken) {
    EXPECT_EQ(drain(*generation).finish_reason, FinishReason::kLength);
  }
  fake.engine->wait_idle();
  const auto again = fake.engine->submit(spec_of({1, 2, 9}, 3), base);
  EXPECT_EQ(base, nullptr);
  EXPECT_EQ(drain(*again).finish_reason, FinishReason::kLength);
  EXPECT_EQ(again->timings().cached_tokens, 2);
}

TEST(Engine, ShutsDownUnderLoad) {
  std::vector<std::shared_ptr<Generation>> generations;
  {
    FakeEngine fake = make_fake_engine(/*num_pages=*/1 << 16);
    for (int i = 0; i < 20; ++i) {
      generations.push_back(fake.engine->submit(spec_of({i}, 100000)));
    }
    Event event;
    EXPECT_TRUE(generations[0]->next(event));
  }
  for (const auto& generation : generations) {
    EXPECT_EQ(drain(*generation).finish_reason, FinishReason::kCancelled);
    generation->cancel();  // its engine is gone
  }
}

TEST(Engine, ScoresEveryWantedRowInOrder) {
  FakeEngine fake = make_fake_engine();
  const Ids prompt = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};
  const Ids rows = {0, 2, 3, 9, 17};
  Ids seen;
  fake.engine->score(prompt, rows, [&](int32_t position, std::span<const float> logits) {
    seen.push_back(position);
    ASSERT_EQ(logits.size(), static_cast<size_t>(kFakeVocabulary));
    const Ids context(prompt.begin(), prompt.begin() + position + 1);
    EXPECT_EQ(logits[static_cast<size_t>(fake_next(context))], 1.0f);
  });
  EXPECT_EQ(seen, rows);
}

TEST(Engine, ScoringEndsAtTheLastWantedRow) {
  FakeEngine fake = make_fake_engine();
  int seen = 0;
  fake.engine->score(Ids(40, 1), {0, 2}, [&](int32_t, std::span<const float>) { ++seen; });
  fake.engine->wait_idle();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(fake.executor->num_computed, 3);
  expect_all_pages_free(*fake.engine);
}

TEST(Engine, TextPiecesJoinToTheDecodedAnswer) {
  text::TextModel model;
  model.kind = text::TokenizerKind::kByteLevelBpe;
  for (int i = 0; i < kFakeVocabulary; ++i)
    model.tokens.emplace_back(1, static_cast<char>('0' + i));
  model.token_types.assign(model.tokens.size(), text::TokenType::kNormal);
  const auto tokenizer = std::make_shared<const text::Tokenizer>(model);
  FakeEngine fake = make_fake_engine(64, tokenizer);
  const std::string whole = tokenizer->decode(fake_answer({7, 7}, 12));
  const auto text_of = [&](RequestSpec spec) {
    const auto generation = fake.engine->submit(std::move(spec));
    std::string text;
    Event event;
    while (generation->next(event)) text += event.text;
    return std::pair(text, event.finish_reason);
  };
  EXPECT_EQ(text_of(spec_of({7, 7}, 12)), std::pair(whole, FinishReason::kLength));
  RequestSpec spec = spec_of({7, 7}, 12);
  spec.stop_strings = {"~~", whole.substr(5, 3)};
  const size_t at = whole.find(whole.substr(5, 3));
  EXPECT_EQ(text_of(spec), std::pair(whole.substr(0, at), FinishReason::kStop));
  fake.engine->wait_idle();
  expect_all_pages_free(*fake.engine);
}

}  // namespace
}  // namespace kvern::engine
