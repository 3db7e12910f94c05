// What goes wrong inside the engine's threads reaches the callers and nobody else.
#include <gtest/gtest.h>

#include "run/engine/step_loop.h"
#include "tests/run/engine/fake_engine.h"
#include "tests/run/failing_allocator.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

void expect_unhealthy(Engine& engine, Code code) {
  engine.wait_idle();
  EXPECT_FALSE(engine.stats().healthy);
  try {
    engine.submit(spec_of({1}, 1));
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST(EngineFailure, ADeviceFailureKeepsItsCode) {
  FakeEngine fake = make_fake_engine();
  fake.executor->on_run = [](const step::StepBatch&) { throw DeviceError("gone"); };
  try {
    fake.engine->score({1, 2, 3}, {0, 2}, [](int32_t, std::span<const float>) {});
    ADD_FAILURE() << "was scored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDevice) << error.what();
  }
  expect_unhealthy(*fake.engine, Code::kDevice);
}

TEST(EngineFailure, EventsSayWhoseFaultItIs) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/4);
  const auto too_long = fake.engine->submit(spec_of({1, 2, 3}, 50));
  EXPECT_EQ(drain(*too_long).code, Code::kInvalidRequest);
  fake.engine->wait_idle();
  fake.executor->on_run = [](const step::StepBatch&) { throw Error(Code::kOutOfMemory, "full"); };
  EXPECT_EQ(drain(*fake.engine->submit(spec_of({1}, 5))).code, Code::kOutOfMemory);
}

TEST(EngineFailure, AnExceptionOfNoKnownKindFailsTheStep) {
  FakeEngine fake = make_fake_engine();
  fake.executor->on_run = [](const step::StepBatch& batch) {
    if (!batch.sequences.empty()) throw 7;
  };
  const auto generation = fake.engine->submit(spec_of({1, 2}, 9));
  EXPECT_EQ(drain(*generation).kind, EventKind::kFailed);
  fake.engine->wait_idle();
  fake.executor->on_run = nullptr;
  EXPECT_EQ(drain(*fake.engine->submit(spec_of({1, 2}, 9))).finish_reason, FinishReason::kLength);
}

TEST(EngineFailure, WantOfMemoryInTheEngineThreadFailsTheRequests) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/1 << 17);
  RequestSpec large = spec_of(Ids(300000, 1), 1);
  const auto small = fake.engine->submit(spec_of({1}, 1000));  // pauses, unread
  std::shared_ptr<Generation> generation;
  {
    const testing::AllocationLimit limit(1 << 20);
    generation = fake.engine->submit(std::move(large));  // the scheduler copies the prompt
    EXPECT_EQ(drain(*generation).kind, EventKind::kFailed);
    EXPECT_EQ(drain(*small).kind, EventKind::kFailed);
    fake.engine->wait_idle();
  }
  expect_unhealthy(*fake.engine, Code::kInternal);
}

TEST(EngineFailure, WantOfMemoryInTheTextThreadFailsTheRequests) {
  text::TextModel model;
  model.kind = text::TokenizerKind::kByteLevelBpe;
  for (int i = 0; i < kFakeVocabulary; ++i) {
    model.tokens.emplace_back(size_t{2} << 20, static_cast<char>('0' + i % 10));
    model.tokens.back() += std::to_string(i);
  }
  model.token_types.assign(model.tokens.size(), text::TokenType::kNormal);
  FakeEngine fake = make_fake_engine(64, std::make_shared<const text::Tokenizer>(model));
  {
    const testing::AllocationLimit limit(1 << 20);
    const auto generation = fake.engine->submit(spec_of({1, 2}, 9));
    const Event last = drain(*generation);
    EXPECT_EQ(last.kind, EventKind::kFailed);
    EXPECT_EQ(last.code, Code::kInternal);
    fake.engine->wait_idle();
  }
  expect_unhealthy(*fake.engine, Code::kInternal);
}

// As the sampler does for rows of NaN: nothing from the first of them on, and why.
TEST(EngineFailure, RowsOfNanFailTheirRequestAlone) {
  for (const size_t good_rows : {0, 2}) {
    FakeEngine fake = make_fake_engine();
    fake.executor->on_result = [good_rows](step::StepResult& result) {
      for (step::SequenceResult& one : result.sequences) {
        if (one.logprobs.size() < 3) continue;  // of the prompt whose rows are told
        one.logprobs.resize(good_rows);
        one.sampled.reset();
        one.failure = "the logits are NaN";
      }
    };
    RequestSpec spec = spec_of({1, 2, 3, 4, 5, 6}, 4);
    spec.prompt_logprobs = true;
    const auto other = fake.engine->submit(spec_of({7}, 40));
    const Event last = drain(*fake.engine->submit(std::move(spec)));
    EXPECT_EQ(last.kind, EventKind::kFailed);
    EXPECT_EQ(last.message, "the logits are NaN");
    EXPECT_EQ(drain(*other).finish_reason, FinishReason::kLength);
    fake.engine->wait_idle();
    EXPECT_TRUE(fake.engine->stats().healthy) << fake.engine->stats().fault;
    expect_all_pages_free(*fake.engine);
  }
}

// Loses a page of every sequence behind the pool's back.
class PageLoser final : public exec::Executor {
 public:
  step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) override {
    step::StepResult result;
    for (const step::SequenceInput& part : batch.sequences) {
      const_cast<kv::PageTable&>(lease.table(part.seq)).groups[0].pop_back();
      step::SequenceResult& one = result.sequences.emplace_back();
      one.seq = part.seq;
      one.sampled = 1;
    }
    return result;
  }
  int64_t page_bytes(size_t) const override { return 0; }
  void export_page(size_t, kv::PageId, exec::PageTokens, std::span<std::byte>) override {}
  void import_page(size_t, kv::PageId, std::span<const std::byte>) override {}
};

TEST(EngineFailure, LostPagesAreFoundAtTheLatestWhenIdle) {
  StepLoop loop(std::make_unique<PageLoser>(), {{8, 4, 0}}, {32, 8, 8, 8});
  sched::Request request;
  request.id = kv::SeqId(1);
  request.prompt_ids = {1, 2, 3};
  request.max_new_tokens = 1;
  loop.scheduler().submit(request);
  while (loop.run_step() != StepOutcome::kIdle) {
  }
  EXPECT_FALSE(loop.healthy());
  EXPECT_EQ(loop.fault_code(), Code::kInternal);
}

}  // namespace
}  // namespace kvern::engine
