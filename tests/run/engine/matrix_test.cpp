// However it is asked for, an answer is the one that its prompt gives alone, bit for bit: in a
// batch of eight, in chunks, on a warm prefix, forked, extended, saved and restored, preempted; for
// every KV format, with windows and without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "compile/driver.h"
#include "run/engine/engine.h"
#include "run/engine/kept_handle.h"

namespace kvern::engine {
namespace {

using Ids = std::vector<int32_t>;
using quantize::WeightChoice;
using PlanPtr = std::shared_ptr<const plan::PlanFile>;

constexpr int32_t kAnswer = 12;
constexpr int32_t kContextLength = 128;

struct Case {
  const char* model;  // null: SmolLM2
  const char* name;
  DType kv;
  WeightChoice weights = WeightChoice::kBf16;
};

std::string smollm2() {
  const char* given = std::getenv("KVERN_SMOLLM2");
  return given != nullptr ? given
                          : KVERN_TEST_DATA "/../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

PlanPtr build(const Case& c) {
  compile::BuildRequest request;
  request.model_path =
      c.model == nullptr ? smollm2() : KVERN_TEST_DATA "/golden/" + std::string(c.model);
  request.plan_path = ::testing::TempDir() + "run_engine_matrix_" + c.name + ".plan";
  request.weights = c.weights;
  request.kv_storage = c.kv;
  request.page_tokens = 8;
  request.max_context_length = kContextLength;
  compile::build(request);
  auto file = std::make_shared<const plan::PlanFile>(request.plan_path);
  std::filesystem::remove(request.plan_path);  // the mapping keeps it
  return file;
}

// Four and four of them begin alike.
std::vector<Ids> eight_prompts(int64_t vocabulary) {
  std::vector<Ids> out;
  for (int32_t p = 0; p < 8; ++p) {
    Ids& ids = out.emplace_back();
    const int32_t length = 3 + p * 14;
    for (int32_t i = 0; i < length; ++i) {
      const int32_t own = i >= length / 2 ? p * 31 : p % 2 * 7;
      ids.push_back(static_cast<int32_t>((own + i * 17 + i * i) % vocabulary));
    }
  }
  return out;
}

RequestSpec spec_of(Ids prompt, int32_t tokens = kAnswer) {
  RequestSpec spec;
  spec.prompt_ids = std::move(prompt);
  spec.max_new_tokens = tokens;
  spec.ignore_eos = true;
  return spec;
}

Ids answer_of(Generation& generation) {
  Event event;
  while (generation.next(event)) {
  }
  EXPECT_EQ(event.kind, EventKind::kFinished) << event.message;
  return generation.ids();
}

void expect_no_page_lost(Engine& engine) {
  engine.wait_idle();
  for (const kv::PoolCounts& counts : engine.stats().pages) EXPECT_EQ(counts.leased, 0);
  engine.flush_prefix_cache();
  for (const kv::PoolCounts& counts : engine.stats().pages) EXPECT_EQ(counts.free, counts.total);
}

class Matrix : public ::testing::TestWithParam<Case> {
 protected:
  bool real() const { return GetParam().model == nullptr; }

  void SetUp() override {
    if (real() && !std::filesystem::exists(smollm2())) GTEST_SKIP() << "no " << smollm2();
    file_ = build(GetParam());
    prompts_ = eight_prompts(file_->plan().vocabulary_size);
    bool window = false;
    for (const plan::KvGroup& group : file_->plan().kv_layout.groups()) {
      window |= group.retention == plan::Retention::kWindow;
    }
    EXPECT_EQ(window, !real() && std::string(GetParam().model) != "tiny_llama.gguf");
    EngineOptions options;
    options.max_sequences = 1;
    options.prefix_cache = false;
    Engine engine(file_, options);
    for (const Ids& prompt : prompts_) alone_.push_back(answer_of(*engine.submit(spec_of(prompt))));
  }

  std::vector<Ids> together(Engine& engine) {
    std::vector<std::shared_ptr<Generation>> generations;
    for (const Ids& prompt : prompts_) generations.push_back(engine.submit(spec_of(prompt)));
    std::vector<Ids> out;
    for (const auto& generation : generations) out.push_back(answer_of(*generation));
    return out;
  }

  // The first part of a prompt with something else behind it, as a kept context.
  std::shared_ptr<Generation> trunk(Engine& engine, const Ids& prompt, int32_t tokens = 5) {
    Ids ids(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(prompt.size() * 3 / 4 + 1));
    RequestSpec spec = spec_of(std::move(ids), tokens);
    spec.keep_context = true;
    const auto generation = engine.submit(std::move(spec));
    answer_of(*generation);
    return generation;
  }

  PlanPtr file_;
  std::vector<Ids> prompts_, alone_;
};

TEST_P(Matrix, BatchChunksWarmPrefixAndPreemption) {
  for (const int32_t chunk : real() ? std::vector{64} : std::vector{7, 64, 512}) {
    for (const bool tight : {false, true}) {
      for (const bool cached : {false, true}) {
        SCOPED_TRACE(fmt::format("chunk {} tight {} cached {}", chunk, tight, cached));
        EngineOptions options;
        options.prefill_chunk_tokens = chunk;
        options.max_sequences = 8;
        options.prefix_cache = cached;
        if (tight) options.kv_capacity_tokens = kContextLength;
        Engine engine(file_, options);
        EXPECT_EQ(together(engine), alone_);
        EXPECT_EQ(together(engine), alone_);  // warm
        const EngineStats stats = engine.stats();
        EXPECT_EQ(stats.scheduler.prefix_hit_tokens > 0, cached);
        expect_no_page_lost(engine);
      }
    }
  }
}

// Every sequence grows out of the pool that held all prompts.
TEST_P(Matrix, APoolTooSmallPreempts) {
  for (const bool cached : {false, true}) {
    EngineOptions options;
    options.max_sequences = 8;
    options.kv_capacity_tokens = 72;
    options.prefix_cache = cached;
    Engine engine(file_, options);
    std::vector<Ids> prompts, alone;
    for (int32_t i = 0; i < 8; ++i) prompts.push_back({3, i + 1, 5});
    for (const Ids& prompt : prompts) {
      alone.push_back(answer_of(*engine.submit(spec_of(prompt, 40))));
    }
    // Again where one ended before the next was submitted: then nobody had to give way.
    for (int round = 0; round < 50 && engine.stats().scheduler.preemptions == 0; ++round) {
      std::vector<std::shared_ptr<Generation>> generations;
      for (const Ids& prompt : prompts) generations.push_back(engine.submit(spec_of(prompt, 40)));
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(answer_of(*generations[i]), alone[i]) << i;
      }
    }
    EXPECT_GT(engine.stats().scheduler.preemptions, 0);
    expect_no_page_lost(engine);
  }
}

TEST_P(Matrix, ForkExtendAndRewind) {
  for (const bool cached : {false, true}) {
    for (const int32_t chunk : {7, 512}) {
      SCOPED_TRACE(fmt::format("chunk {} cached {}", chunk, cached));
      EngineOptions options;
      options.prefill_chunk_tokens = chunk;
      options.prefix_cache = cached;
      Engine engine(file_, options);
      std::vector<std::shared_ptr<Generation>> trunks, forks;
      for (const Ids& prompt : prompts_) trunks.push_back(trunk(engine, prompt));
      for (int round = 0; round < 2; ++round) {
        for (size_t p = 0; p < prompts_.size(); ++p) {
          RequestSpec spec = spec_of(prompts_[p]);  // rewinds into the trunk, parts from it there
          spec.base = trunks[p]->kept();
          if (round == 1) trunks[p].reset();  // the second time nobody else uses it
          forks.push_back(engine.submit(std::move(spec)));
        }
      }
      for (size_t f = 0; f < forks.size(); ++f) {
        EXPECT_EQ(answer_of(*forks[f]), alone_[f % prompts_.size()]) << f;
      }
      expect_no_page_lost(engine);
    }
  }
}

TEST_P(Matrix, AnAnswerInTwoParts) {
  Engine engine(file_, {});
  for (size_t p = 0; p < prompts_.size(); ++p) {
    RequestSpec first = spec_of(prompts_[p], 5);
    first.keep_context = true;
    first.use_prefix_cache = false;
    auto generation = engine.submit(std::move(first));
    Ids answer = answer_of(*generation);
    RequestSpec second = spec_of(prompts_[p], kAnswer - 5);
    second.prompt_ids.insert(second.prompt_ids.end(), answer.begin(), answer.end());
    second.use_prefix_cache = false;
    second.base = generation->kept();
    generation = engine.submit(std::move(second));
    for (const int32_t id : answer_of(*generation)) answer.push_back(id);
    EXPECT_EQ(answer, alone_[p]) << p;
    EXPECT_EQ(generation->timings().cached_tokens, static_cast<int64_t>(prompts_[p].size()) + 4);
  }
  expect_no_page_lost(engine);
}

TEST_P(Matrix, SavedAndRestored) {
  const std::string path = ::testing::TempDir() + "run_engine_matrix_" + GetParam().name + ".kvc";
  Engine from(file_, {});
  EngineOptions options;
  options.prefill_chunk_tokens = 7;
  options.prefix_cache = false;
  Engine to(file_, options);
  for (size_t p = 0; p < prompts_.size(); ++p) {
    const auto kept = trunk(from, prompts_[p], 1);
    Ids context(prompts_[p].begin(),
                prompts_[p].begin() + static_cast<ptrdiff_t>(prompts_[p].size() * 3 / 4 + 1));
    from.save_context(*kept->kept(), context, path);
    RestoredContext restored = to.restore_context(path);
    EXPECT_EQ(restored.ids, context);
    RequestSpec spec = spec_of(prompts_[p]);
    spec.base = std::move(restored.kept);
    const auto generation = to.submit(std::move(spec));
    EXPECT_EQ(answer_of(*generation), alone_[p]) << p;
    EXPECT_EQ(generation->timings().cached_tokens,
              static_cast<int64_t>(std::min(context.size(), prompts_[p].size() - 1)))
        << p;
  }
  expect_no_page_lost(from);
  expect_no_page_lost(to);
}

// Eight at once that part from one restored and one kept context, in a pool that holds two of them.
TEST_P(Matrix, RestoredAndForkedInATightBatch) {
  constexpr int32_t kTokens = 40;
  const std::string path = ::testing::TempDir() + "run_engine_matrix_" + GetParam().name + "_8.kvc";
  const Ids begin(prompts_[3].begin(), prompts_[3].begin() + 20);
  Engine from(file_, {});
  RequestSpec first = spec_of(begin, 1);
  first.keep_context = true;
  const auto trunk = from.submit(first);
  answer_of(*trunk);
  from.save_context(*trunk->kept(), begin, path);
  const auto request = [&](int32_t i) {
    RequestSpec spec = spec_of(begin, kTokens);
    spec.prompt_ids.push_back(i);
    return spec;
  };
  std::vector<Ids> alone;
  for (int32_t i = 0; i < 8; ++i) {
    RequestSpec spec = request(i);
    spec.use_prefix_cache = false;
    alone.push_back(answer_of(*from.submit(std::move(spec))));
  }
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached);
    EngineOptions options;
    options.max_sequences = 8;
    options.kv_capacity_tokens = 72;
    options.prefill_chunk_tokens = 7;
    options.prefix_cache = cached;
    Engine to(file_, options);
    int64_t reused = 0;
    // On a busy machine one may end before the next is submitted: then nobody has to give way, and
    // the eight are asked again.
    for (int round = 0; round < 50 && to.stats().scheduler.preemptions == 0; ++round) {
      const auto kept = to.submit(first);
      answer_of(*kept);
      RestoredContext restored = to.restore_context(path);
      std::vector<std::shared_ptr<Generation>> generations;
      for (int32_t i = 0; i < 8; ++i) {
        RequestSpec spec = request(i);
        spec.base = i % 2 == 0 ? restored.kept : kept->kept();
        generations.push_back(to.submit(std::move(spec)));
      }
      restored.kept.reset();
      for (size_t i = 0; i < generations.size(); ++i) {
        EXPECT_EQ(answer_of(*generations[i]), alone[i]) << i;
        reused += generations[i]->timings().cached_tokens;
      }
    }
    EXPECT_GT(to.stats().scheduler.preemptions, 0);
    EXPECT_GT(reused, 0);
  }
}

class MatrixOfPlans : public Matrix {};

TEST_P(MatrixOfPlans, AContextOfAnotherPlanIsRefused) {
  Case other = GetParam();
  other.weights = WeightChoice::kF32;
  other.kv = other.kv == DType::kF32 ? DType::kF16 : DType::kF32;
  const std::string path = ::testing::TempDir() + "run_engine_matrix_other.kvc";
  Engine from(build(other), {});
  const auto kept = trunk(from, prompts_[3]);
  from.save_context(*kept->kept(), prompts_[3], path);
  Engine to(file_, {});
  try {
    to.restore_context(path);
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Matrix,
    ::testing::Values(Case{"tiny_llama.gguf", "llama_f32", DType::kF32, WeightChoice::kF32},
                      Case{"tiny_llama.gguf", "llama_f16", DType::kF16},
                      Case{"tiny_llama.gguf", "llama_bf16", DType::kBf16},
                      Case{"tiny_llama.gguf", "llama_int8", DType::kI8, WeightChoice::kInt8},
                      Case{"tiny_llama.gguf", "llama_fp8", DType::kF8E4M3},
                      Case{"tiny_mistral", "mistral_f32", DType::kF32, WeightChoice::kF32},
                      Case{"tiny_mistral", "mistral_bf16", DType::kBf16},
                      Case{"tiny_mistral", "mistral_int8", DType::kI8},
                      Case{"tiny_gemma3", "gemma3_f32", DType::kF32, WeightChoice::kF32},
                      Case{"tiny_gemma3", "gemma3_f16", DType::kF16},
                      Case{"tiny_gemma3", "gemma3_fp8", DType::kF8E4M3}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Cases, MatrixOfPlans,
                         ::testing::Values(Case{"tiny_llama.gguf", "llama", DType::kBf16},
                                           Case{"tiny_mistral", "mistral", DType::kI8}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(SlowSmolLM2, Matrix,
                         ::testing::Values(Case{nullptr, "smollm2_int8", DType::kI8,
                                                WeightChoice::kKeep}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kvern::engine
