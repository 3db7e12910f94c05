// The public headers as an embedding program uses them; nothing else of Kvern is included here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kvern/build.h"
#include "kvern/c_api.h"
#include "kvern/generate.h"
#include "kvern/plan.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = KVERN_TEST_DATA "/golden/tiny_llama.gguf";

class ApiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / ("kvern_api_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    Builder().build(kModel, plan());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  static std::string plan() { return (folder_ / "tiny.plan").string(); }
  static Engine load() {
    EngineOptions options;
    options.num_threads = 1;
    return Engine::load(plan(), options);
  }
  static Request request(int32_t count) {
    Request r;
    r.prompt_ids = {5, 6, 7};
    r.max_new_tokens = count;
    r.ignore_eos = true;
    return r;
  }
  static fs::path folder_;
};

fs::path ApiTest::folder_;

Code code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Code::kInternal;
}

TEST_F(ApiTest, StreamsTheSameAnswerThatGenerateReturns) {
  Engine engine = load();
  const Answer answer = generate(engine, request(12));
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  ASSERT_EQ(answer.ids.size(), 12u);
  EXPECT_EQ(answer.timings.prompt_tokens, 3);
  EXPECT_GT(answer.timings.prefill_ms, 0);
  ExecutionContext context = engine.submit(request(12));
  std::string text;
  std::vector<int32_t> ids;
  for (Event event; context.next(event);) {
    text += event.text;
    if (event.kind == Event::Kind::kToken) ids.push_back(event.id);
  }
  EXPECT_EQ(text, answer.text);
  EXPECT_EQ(ids, answer.ids);
}

TEST_F(ApiTest, DestroyingAContextFreesItsPages) {
  Engine engine = load();
  { ExecutionContext context = engine.submit(request(100)); }
  for (int i = 0; i < 2000 && engine.stats().pages_leased + engine.stats().running > 0; ++i) {
    ::usleep(1000);
  }
  EXPECT_EQ(engine.stats().pages_leased, 0);
  engine.flush_prefix_cache();
  EXPECT_EQ(engine.stats().pages_free, engine.stats().pages_total);
}

TEST_F(ApiTest, AContextOutlivesAnEngineThatStops) {
  std::optional<ExecutionContext> context;
  {
    Engine engine = load();
    context.emplace(engine.submit(request(200)));
  }
  Event event;
  FinishReason last = FinishReason::kNone;
  while (context->next(event)) last = event.reason;
  EXPECT_NE(last, FinishReason::kNone);
}

TEST_F(ApiTest, CancelEndsAnAnswer) {
  Engine engine = load();
  // Longer than the bound on events that nobody took, so that it cannot end before the cancel.
  const Answer answer = generate(engine, request(3000), [](std::string_view) { return false; });
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  EXPECT_LT(answer.ids.size(), 3000u);
}

TEST_F(ApiTest, ImpossibleRequestsSayWhy) {
  Engine engine = load();
  const auto submit = [&](auto&& change) {
    return code_of([&] {
      Request r = request(4);
      change(r);
      engine.submit(r);
    });
  };
  EXPECT_EQ(submit([](Request& r) { r.prompt_ids.clear(); }), Code::kInvalidRequest);
  EXPECT_EQ(submit([](Request& r) { r.prompt_ids = {1, -1}; }), Code::kInvalidRequest);
  EXPECT_EQ(submit([](Request& r) { r.prompt_ids = {1 << 20}; }), Code::kInvalidRequest);
  EXPECT_EQ(submit([](Request& r) { r.prompt_ids.assign(100000, 1); }), Code::kInvalidRequest);
  EXPECT_EQ(submit([](Request& r) { r.sampling.temperature = -0.7; }), Code::kInvalidRequest);
}

TEST_F(ApiTest, PlansTellWhatTheyHold) {
  const Plan info = Plan::open(plan());
  EXPECT_EQ(info.summary().family, "llama");
  EXPECT_EQ(info.summary().num_layers, 2);
  EXPECT_EQ(info.summary().kv_format, "bf16");
  EXPECT_GT(info.summary().decode_weight_bytes, 0u);
  EXPECT_LE(info.summary().decode_weight_bytes, info.summary().file_bytes * 2);
  EXPECT_FALSE(info.instructions().empty());
  EXPECT_NE(info.graph_text().find("kv_attention"), std::string::npos);
  EXPECT_EQ(info.to_json().front(), '{');
}

TEST_F(ApiTest, BuildsAreRefusedByTheRightName) {
  EXPECT_EQ(code_of([] { Builder().build("/no/such/model.gguf", plan() + "2"); }), Code::kNotFound);
  BuildOptions long_context;
  long_context.max_context_length = 1 << 20;
  EXPECT_EQ(code_of([&] { Builder(long_context).build(kModel, plan() + "2"); }),
            Code::kInvalidArgument);
  BuildOptions no_pages;
  no_pages.page_tokens = 0;
  EXPECT_EQ(code_of([&] { Builder{no_pages}; }), Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(plan() + "2"));
}

TEST_F(ApiTest, KeysChangeWithContentAndOptions) {
  const std::string key = Builder().key(kModel);
  EXPECT_EQ(key, Builder().key(kModel));
  BuildOptions int8;
  int8.weights = WeightFormat::kInt8;
  EXPECT_NE(key, Builder(int8).key(kModel));
  EXPECT_NE(key, Builder().key(KVERN_TEST_DATA "/golden/tiny_llama_q.gguf"));
}

TEST_F(ApiTest, ImplementationsSayWhyNoBetterOneRuns) {
  EngineOptions options;
  options.plain_kernels = true;
  const std::string text = Engine::load(plan(), options).implementations();
  EXPECT_NE(text.find("cpu.linear.plain"), std::string::npos) << text;
  EXPECT_NE(text.find("; not cpu.linear."), std::string::npos) << text;
}

TEST_F(ApiTest, FromC) {
  kvern_engine* engine = nullptr;
  ASSERT_EQ(kvern_engine_load(plan().c_str(), 1, &engine), KVERN_OK) << kvern_last_error();
  size_t count = 0;
  ASSERT_EQ(kvern_encode(engine, "a mill", 0, nullptr, 0, &count), KVERN_OK) << kvern_last_error();
  ASSERT_GT(count, 0u);
  std::vector<int32_t> ids(count);
  ASSERT_EQ(kvern_encode(engine, "a mill", 0, ids.data(), ids.size(), &count), KVERN_OK);
  kvern_context* context = nullptr;
  ASSERT_EQ(kvern_submit(engine, ids.data(), ids.size(), 5, &context), KVERN_OK);
  int32_t done = 0;
  int tokens = 0;
  while (done == 0) {
    int32_t id = 0;
    const char* text = nullptr;
    ASSERT_EQ(kvern_next(context, &id, &text, &done), KVERN_OK) << kvern_last_error();
    ASSERT_NE(text, nullptr);
    if (done == 0) ++tokens;
  }
  EXPECT_LE(tokens, 5);
  EXPECT_STRNE(kvern_finish_reason(context), "");
  kvern_context_free(context);
  kvern_engine_free(engine);
}

TEST_F(ApiTest, FaultsFromCAreCodesWithWords) {
  kvern_engine* engine = nullptr;
  EXPECT_EQ(kvern_engine_load("/no/such.plan", 1, &engine), KVERN_NOT_FOUND);
  EXPECT_EQ(engine, nullptr);
  EXPECT_NE(std::string(kvern_last_error()).find("/no/such.plan"), std::string::npos);
  EXPECT_EQ(kvern_engine_load(nullptr, 1, &engine), KVERN_INVALID_ARGUMENT);
  EXPECT_EQ(kvern_build(kModel, "/no/such/folder/x.plan"), KVERN_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvern
