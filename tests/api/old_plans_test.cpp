// Plans of every format version ever released are kept in tests/plans/v*/ and must go on working:
// each opens, verifies, and gives the ids that transformers gives for the model it was built from.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kvern/build.h"
#include "kvern/generate.h"
#include "kvern/plan.h"

namespace kvern {
namespace {

namespace fs = std::filesystem;

TEST(OldPlans, StillAnswer) {
  std::ifstream golden(KVERN_TEST_DATA "/golden/tiny_llama.json");
  const auto prompts =
      nlohmann::json::parse(golden).at("models").at("tiny_llama_q.gguf").at("prompts");
  int num_plans = 0;
  for (const auto& entry : fs::recursive_directory_iterator(KVERN_TEST_DATA "/plans")) {
    if (entry.path().extension() != ".plan") continue;
    SCOPED_TRACE(entry.path().string());
    verify_plan(entry.path().string());
    EngineOptions options;
    options.num_threads = 1;
    options.plain_kernels = true;  // f32 throughout: the ids are transformers' own
    Engine engine = Engine::load(entry.path().string(), options);
    for (const auto& prompt : prompts) {
      Request request;
      request.prompt_ids = prompt.at("ids").get<std::vector<int32_t>>();
      const auto wanted = prompt.at("greedy_ids").get<std::vector<int32_t>>();
      request.max_new_tokens = static_cast<int32_t>(wanted.size());
      request.ignore_eos = true;
      EXPECT_EQ(generate(engine, request).ids, wanted);
    }
    ++num_plans;
  }
  EXPECT_GE(num_plans, 1);
}

}  // namespace
}  // namespace kvern
