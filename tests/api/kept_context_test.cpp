// Kept contexts and the prefix cache as an embedding program uses them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "kvern/build.h"
#include "kvern/engine.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

class KeptContextTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / ("kvern_kept_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    Builder().build(KVERN_TEST_DATA "/golden/tiny_llama.gguf", path("tiny.plan"));
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  static std::string path(const char* name) { return (folder_ / name).string(); }
  static Engine load() {
    EngineOptions options;
    options.num_threads = 1;
    return Engine::load(path("tiny.plan"), options);
  }
  static fs::path folder_;
};

fs::path KeptContextTest::folder_;

Request request_of(Ids prompt, int32_t count, bool keep = true) {
  Request out;
  out.prompt_ids = std::move(prompt);
  out.max_new_tokens = count;
  out.ignore_eos = true;
  out.keep_context = keep;
  return out;
}

Ids drain(ExecutionContext& context) {
  Event event;
  while (context.next(event)) {
  }
  EXPECT_EQ(event.reason, FinishReason::kLength) << event.message;
  return context.ids();
}

// The answer that a cold engine gives.
Ids cold(Engine& engine, const Ids& prompt, int32_t count) {
  Request request = request_of(prompt, count, /*keep=*/false);
  request.use_prefix_cache = false;
  ExecutionContext context = engine.submit(request);
  return drain(context);
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void refuses(const std::function<void()>& action, Code code) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
  }
}

TEST_F(KeptContextTest, ExtendsForksAndRewinds) {
  Engine engine = load();
  const Ids prompt = {5, 6, 7, 8, 9, 10, 11};
  ExecutionContext context = engine.submit(request_of(prompt, 6));
  Ids ids = joined(prompt, drain(context));
  EXPECT_EQ(context.context_ids(), ids);

  ExecutionContext fork = context.fork();
  EXPECT_EQ(fork.context_ids(), ids);
  EXPECT_TRUE(fork.ids().empty());
  fork.extend(request_of({20, 21}, 5));
  const Ids forked = drain(fork);
  EXPECT_EQ(forked, cold(engine, joined(ids, {20, 21}), 5));
  EXPECT_EQ(fork.context_ids(), joined(joined(ids, {20, 21}), forked));

  context.extend(request_of({30}, 5, /*keep=*/false));
  EXPECT_EQ(drain(context), cold(engine, joined(ids, {30}), 5));
  EXPECT_EQ(context.timings().cached_tokens, 12);
  EXPECT_EQ(context.timings().prompt_tokens, 14);

  context.rewind(9);
  EXPECT_EQ(context.context_ids(), Ids(ids.begin(), ids.begin() + 9));
  context.extend(request_of({40}, 5));
  EXPECT_EQ(drain(context), cold(engine, joined(Ids(ids.begin(), ids.begin() + 9), {40}), 5));
  context.rewind(0);
  context.extend(request_of({1, 2}, 3));
  EXPECT_EQ(drain(context), cold(engine, {1, 2}, 3));
}

TEST_F(KeptContextTest, SaysWhatIsNotPossible) {
  Engine engine = load();
  ExecutionContext loose = engine.submit(request_of({5, 6}, 2, /*keep=*/false));
  drain(loose);
  refuses([&] { loose.context_ids(); }, Code::kInvalidRequest);
  refuses([&] { loose.extend(request_of({1}, 1)); }, Code::kInvalidRequest);
  refuses([&] { loose.fork(); }, Code::kInvalidRequest);
  refuses([&] { loose.save(path("loose.kvc")); }, Code::kInvalidRequest);
  ExecutionContext kept = engine.submit(request_of({5, 6}, 2));
  drain(kept);
  refuses([&] { kept.rewind(5); }, Code::kInvalidRequest);
  refuses([&] { kept.rewind(-1); }, Code::kInvalidRequest);
  refuses([&] { kept.extend(request_of({-7}, 1)); }, Code::kInvalidRequest);
  kept.extend(request_of({1}, 1));  // what was refused has changed nothing
  drain(kept);
  refuses([&] { kept.save(path("no/such/folder.kvc")); }, Code::kNotFound);
  refuses([&] { engine.restore(path("nothing.kvc")); }, Code::kNotFound);
  refuses([&] { engine.restore(path("tiny.plan")); }, Code::kInvalidPlan);
}

TEST_F(KeptContextTest, SavesAndRestores) {
  Ids ids;
  {
    Engine engine = load();
    ExecutionContext context = engine.submit(request_of({5, 6, 7, 8, 9, 10, 11}, 9));
    ids = joined({5, 6, 7, 8, 9, 10, 11}, drain(context));
    context.save(path("saved.kvc"));
  }
  Engine engine = load();
  ExecutionContext context = engine.restore(path("saved.kvc"));
  EXPECT_EQ(context.context_ids(), ids);
  context.extend(request_of({3}, 4));
  EXPECT_EQ(drain(context), cold(engine, joined(ids, {3}), 4));
  EXPECT_EQ(context.timings().cached_tokens, 15);

  std::ifstream in(path("saved.kvc"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(path("damaged.kvc"), std::ios::binary) << bytes;
  refuses([&] { engine.restore(path("damaged.kvc")); }, Code::kInvalidPlan);
  BuildOptions options;
  options.kv = KvCacheFormat::kF32;
  Builder(options).build(KVERN_TEST_DATA "/golden/tiny_llama.gguf", path("other.plan"));
  Engine another = Engine::load(path("other.plan"), {});
  refuses([&] { another.restore(path("saved.kvc")); }, Code::kInvalidArgument);
}

TEST_F(KeptContextTest, OutlivesItsEngine) {
  std::optional<ExecutionContext> context;
  {
    Engine engine = load();
    context = engine.submit(request_of({5, 6}, 2));
    drain(*context);
  }
  EXPECT_EQ(context->context_ids().size(), 4u);
  refuses([&] { context->extend(request_of({1}, 1)); }, Code::kInvalidRequest);
  refuses([&] { context->save(path("gone.kvc")); }, Code::kInvalidRequest);
}

TEST_F(KeptContextTest, AWarmPrefixIsCountedAndGivesTheSameAnswer) {
  Engine engine = load();
  Ids prompt;
  for (int32_t i = 0; i < 70; ++i) prompt.push_back(i);
  ExecutionContext first = engine.submit(request_of(prompt, 4, /*keep=*/false));
  const Ids answer = drain(first);
  ExecutionContext second = engine.submit(request_of(prompt, 4, /*keep=*/false));
  EXPECT_EQ(drain(second), answer);
  EXPECT_EQ(first.timings().cached_tokens, 0);
  EXPECT_EQ(second.timings().cached_tokens, 64);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.prefix_hit_tokens, 64);
  EXPECT_GE(stats.pages_cached + stats.pages_leased, 2);
  std::vector<ExecutionContext> several = engine.submit(request_of(prompt, 4, false), 3);
  for (ExecutionContext& context : several) EXPECT_EQ(drain(context), answer);
}

}  // namespace
}  // namespace kvern
