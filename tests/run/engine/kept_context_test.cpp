// Contexts that go on: extended, forked, rewound, saved and restored, on the fake executor, whose
// pages hold the context and whose answers tell when one is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "run/engine/kept_handle.h"
#include "tests/run/engine/fake_engine.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Turn {
  std::shared_ptr<Generation> generation;
  Ids context;  // prompt and answer
};

// Asks and takes the whole answer, which must be the one that the context gives alone.
Turn ask(FakeEngine& fake, const Ids& prompt, int32_t tokens,
         std::shared_ptr<const KeptHandle> base = nullptr) {
  RequestSpec spec = spec_of(prompt, tokens);
  spec.keep_context = true;
  spec.base = std::move(base);
  Turn turn{fake.engine->submit(std::move(spec)), {}};
  EXPECT_EQ(drain(*turn.generation).finish_reason, FinishReason::kLength);
  EXPECT_EQ(turn.generation->ids(), fake_answer(prompt, tokens));
  turn.context = joined(prompt, turn.generation->ids());
  return turn;
}

int64_t leased(const Engine& engine) {
  int64_t sum = 0;
  for (const kv::PoolCounts& counts : engine.stats().pages) sum += counts.leased;
  return sum;
}

// The engine has worked off what was asked of it by now.
void settle(FakeEngine& fake) {
  fake.engine->wait_idle();
}

TEST(KeptContext, GoesOnWithoutComputingAnythingTwice) {
  FakeEngine fake = make_fake_engine();
  Turn first = ask(fake, {1, 2, 3, 4, 5, 6}, 4);
  const int64_t before = fake.executor->num_computed;
  EXPECT_EQ(before, 9);  // the last sample is in no page yet
  std::shared_ptr<const KeptHandle> base = first.generation->kept();
  first.generation.reset();
  const Turn second = ask(fake, joined(first.context, {7, 8}), 3, std::move(base));
  EXPECT_EQ(fake.executor->num_computed - before, 3 + 2);
  EXPECT_EQ(second.generation->timings().cached_tokens, 9);
  EXPECT_EQ(second.generation->timings().prompt_tokens, 12);
  EXPECT_EQ(fake.executor->num_copies, 0);  // nobody else held the last page
}

TEST(KeptContext, KeepsItsPagesUntilItGoes) {
  FakeEngine fake = make_fake_engine();
  Turn turn = ask(fake, {1, 2, 3, 4, 5, 6}, 4);
  settle(fake);
  EXPECT_EQ(leased(*fake.engine), 3 + 1);
  EXPECT_EQ(fake.engine->stats().scheduler.kept, 1);
  turn.generation.reset();
  settle(fake);
  EXPECT_EQ(leased(*fake.engine), 0);
}

TEST(KeptContext, ForksShareWholePagesAndCopyTheOneTheyPartIn) {
  FakeEngine fake = make_fake_engine();
  const Turn trunk = ask(fake, {1, 2, 3, 4, 5, 6}, 4);
  const int64_t before = fake.executor->num_computed;
  const Turn left = ask(fake, joined(trunk.context, {7}), 5, trunk.generation->kept());
  const Turn right = ask(fake, joined(trunk.context, {8}), 5, trunk.generation->kept());
  const Turn again = ask(fake, joined(trunk.context, {9}), 5, trunk.generation->kept());
  EXPECT_EQ(fake.executor->num_computed - before, 3 * (2 + 4));
  EXPECT_EQ(fake.executor->num_copies, 3 * 2);  // of both KV groups
}

TEST(KeptContext, ARewoundOneForgetsTheRest) {
  FakeEngine fake = make_fake_engine();
  const Turn trunk = ask(fake, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
  for (size_t keep = 0; keep <= trunk.context.size(); ++keep) {
    Ids prompt(trunk.context.begin(), trunk.context.begin() + static_cast<ptrdiff_t>(keep));
    prompt.push_back(30);
    const int64_t before = fake.executor->num_computed;
    RequestSpec spec = spec_of(prompt, 1);
    spec.use_prefix_cache = false;
    spec.base = trunk.generation->kept();
    const auto generation = fake.engine->submit(std::move(spec));
    drain(*generation);
    EXPECT_EQ(generation->ids(), fake_answer(prompt, 1));
    EXPECT_EQ(fake.executor->num_computed - before, keep == trunk.context.size() ? 2 : 1);
  }
}

TEST(KeptContext, GivesItsPagesToWhoeverNeedsThem) {
  FakeEngine fake = make_fake_engine(/*num_pages=*/16);  // 64 tokens in the tighter KV group
  const Turn kept = ask(fake, Ids(30, 1), 4);
  const Turn large = ask(fake, Ids(50, 2), 4);
  EXPECT_EQ(fake.engine->stats().scheduler.preemptions, 0);
  const Turn more = ask(fake, joined(kept.context, {5}), 4, kept.generation->kept());
  EXPECT_EQ(fake.engine->stats().scheduler.preemptions, 0);
}

TEST(KeptContext, AStopStringLeavesTheContextWhereTheConsumerSawItEnd) {
  text::TextModel model;
  model.kind = text::TokenizerKind::kByteLevelBpe;
  for (int i = 0; i < kFakeVocabulary; ++i)
    model.tokens.emplace_back(1, static_cast<char>('0' + i));
  model.token_types.assign(model.tokens.size(), text::TokenType::kNormal);
  FakeEngine fake = make_fake_engine(64, std::make_shared<const text::Tokenizer>(model));
  const Ids prompt = {7, 7};
  const Ids answer = fake_answer(prompt, 40);
  RequestSpec spec = spec_of(prompt, 40);
  spec.stop_strings = {std::string(1, static_cast<char>('0' + answer[3]))};
  spec.keep_context = true;
  const auto generation = fake.engine->submit(std::move(spec));
  EXPECT_EQ(drain(*generation).finish_reason, FinishReason::kStop);
  const Ids context = joined(prompt, generation->ids());
  ask(fake, joined(context, {9, 9}), 6, generation->kept());
}

TEST(KeptContext, AnotherEnginesIsRefused) {
  FakeEngine one = make_fake_engine(), other = make_fake_engine();
  const Turn turn = ask(one, {1, 2, 3}, 2);
  RequestSpec spec = spec_of({1, 2, 3}, 2);
  spec.base = turn.generation->kept();
  EXPECT_THROW(other.engine->submit(std::move(spec)), Error);
}

std::string path_of(const char* name) {
  return ::testing::TempDir() + "kept_context_" + name + ".kvc";
}

TEST(SavedContext, GoesOnInAnotherEngineWithoutComputing) {
  const std::string path = path_of("other");
  Ids context;
  {
    FakeEngine fake = make_fake_engine();
    const Turn turn = ask(fake, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
    fake.engine->save_context(*turn.generation->kept(), turn.context, path);
    context = turn.context;
  }
  FakeEngine fake = make_fake_engine();
  RestoredContext restored = fake.engine->restore_context(path);
  EXPECT_EQ(restored.ids, context);
  const Turn more = ask(fake, joined(restored.ids, {3}), 5, std::move(restored.kept));
  EXPECT_EQ(fake.executor->num_computed, 2 + 4);
  // What a file says serves its own context alone: an equal beginning is computed, and only what
  // was computed here is found by the next.
  const Turn equal = ask(fake, joined(context, {4}), 1);
  EXPECT_EQ(equal.generation->timings().cached_tokens, 0);
  const Turn third = ask(fake, joined(context, {5}), 1);
  EXPECT_EQ(third.generation->timings().cached_tokens, 16);
}

TEST(SavedContext, WindowsComeBackWithoutWhatSlidOutOfThem) {
  const std::string path = path_of("window");
  const std::vector<kv::GroupConfig> groups = {{64, 4, 0}, {12, 4, 6}};
  FakeEngine fake = make_fake_engine(64, nullptr, groups);
  const Turn turn = ask(fake, Ids(21, 4), 9);
  fake.engine->save_context(*turn.generation->kept(), turn.context, path);
  FakeEngine other = make_fake_engine(64, nullptr, groups);
  RestoredContext restored = other.engine->restore_context(path);
  settle(other);
  EXPECT_EQ(other.engine->stats().pages[0].leased, 8);
  EXPECT_LE(other.engine->stats().pages[1].leased, 3);
  ask(other, joined(restored.ids, {3}), 5, std::move(restored.kept));
  EXPECT_EQ(other.executor->num_computed, 2 + 4);
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What stands in a page behind the context's last token, or before its window, is not its own.
TEST(SavedContext, HoldsNothingButItsOwnTokens) {
  const std::vector<kv::GroupConfig> groups = {{64, 4, 0}, {12, 4, 6}};
  const Ids prompt(14, 4);
  std::vector<std::string> files;
  for (const bool used : {false, true}) {
    FakeEngine fake = make_fake_engine(64, nullptr, groups);
    if (used) {
      for (int32_t i = 0; i < 6; ++i) ask(fake, Ids(20, 10 + i), 20);  // leave pages full of theirs
      fake.engine->flush_prefix_cache();
    }
    Turn turn = ask(fake, prompt, 1);
    fake.engine->save_context(*turn.generation->kept(), turn.context, path_of("own"));
    files.push_back(bytes_of(path_of("own")));
    // Rewound: what it forgot is nobody's business.
    const Ids rewound(13, 4);
    const Turn forgets = ask(fake, joined(rewound, {used ? 8 : 7}), 1);
    fake.engine->save_context(*forgets.generation->kept(), rewound, path_of("own"));
    files.push_back(bytes_of(path_of("own")));
    EXPECT_EQ(fake.engine->restore_context(path_of("own")).ids, rewound);
  }
  EXPECT_GT(files[1].size(), 48 + 13 * 4 + 16 * 4u);  // pages too
  EXPECT_EQ(files[0], files[2]);
  EXPECT_EQ(files[1], files[3]);
}

TEST(SavedContext, WithoutItsPagesItIsComputedAgain) {
  const std::string path = path_of("reclaimed");
  FakeEngine fake = make_fake_engine(/*num_pages=*/16);
  const Turn kept = ask(fake, Ids(30, 1), 4);
  const Turn large = ask(fake, Ids(56, 2), 4);
  fake.engine->save_context(*kept.generation->kept(), kept.context, path);
  FakeEngine other = make_fake_engine();
  RestoredContext restored = other.engine->restore_context(path);
  EXPECT_EQ(restored.ids, kept.context);
  ask(other, joined(restored.ids, {3}), 5, std::move(restored.kept));
  EXPECT_EQ(other.executor->num_computed, 35 + 4);
}

TEST(SavedContext, WithoutRoomItTakesNoPageAtAll) {
  const std::string path = path_of("room");
  FakeEngine fake = make_fake_engine();
  const Turn kept = ask(fake, Ids(40, 1), 4);
  fake.engine->save_context(*kept.generation->kept(), kept.context, path);
  FakeEngine small = make_fake_engine(64, nullptr, {{64, 4, 0}, {2, 16, 0}});
  const RestoredContext restored = small.engine->restore_context(path);
  EXPECT_EQ(restored.ids, kept.context);
  settle(small);
  EXPECT_EQ(leased(*small.engine), 0);
}

}  // namespace
}  // namespace kvern::engine
