// The engine: the only place where scheduler, pages, executor and text meet.
//
// Callers validate and throw in their own thread, then enqueue. One engine thread owns scheduler,
// pool and executor; one text thread detokenises, looks for stop strings and fills the requests'
// bounded queues. A consumer that lets its queue fill pauses only itself. All methods are
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/reader.h"
#include "run/engine/generation.h"
#include "run/exec/plan_executor.h"
#include "run/kv/page_pool.h"
#include "run/sched/request.h"
#include "run/sched/scheduler.h"
#include "text/tokenizer.h"

namespace kvern::engine {

struct EngineOptions {
  int num_threads = 0;              // of the compute pool, the engine thread included; 0: all
  int64_t kv_capacity_tokens = 0;   // 0: every sequence at full length, half of free memory at most
  int32_t max_tokens_per_step = 0;  // 0: the profile's
  int32_t prefill_chunk_tokens = 0;  // prompt tokens per step; 0: max_tokens_per_step
  int32_t max_sequences = 0;         // 0: the profile's
  bool plain_kernels = false;
  exec::WeightsMemory weights_memory = exec::WeightsMemory::kMap;
  bool verify = false;         // sums the weights before anything runs
  bool deterministic = false;  // no meaning on the CPU, which always is
};

struct RequestSpec {
  std::vector<int32_t> prompt_ids;
  int32_t max_new_tokens = 0;  // 0: as much as the context length holds
  bool ignore_eos = false;     // the model's own stop ids do not end the answer
  std::vector<int32_t> stop_ids;
  std::vector<std::string> stop_strings;  // are not part of the text
  step::SamplingParams sampling;
  bool recompute_context = false;  // --no-kv-cache
  step::Purpose purpose = step::Purpose::kSample;
  std::vector<int32_t> export_rows;  // kExport: ascending positions of the prompt
};

struct EngineStats {
  int64_t steps = 0;
  int64_t prefill_tokens = 0;  // computed in steps that hold any prompt chunk
  int64_t decode_tokens = 0;   // computed in steps of single tokens alone
  double prefill_ms = 0;       // of those steps
  double decode_ms = 0;
  sched::SchedulerCounts scheduler;
  std::vector<kv::PoolCounts> pages;  // by KV group
  bool healthy = true;
  std::string fault;  // why not
};

// What an Engine runs on: made from a plan, or by tests from a fake.
struct EngineParts {
  std::unique_ptr<exec::Executor> executor;
  std::vector<kv::GroupConfig> kv_groups;
  sched::SchedulerOptions scheduler;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null: ids only
  std::vector<int32_t> model_stop_ids;
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;
};

class Engine {
 public:
  // Throws Error(kInvalidPlan | kInvalidArgument | kOutOfMemory).
  Engine(std::shared_ptr<const plan::PlanFile> file, const EngineOptions& options);
  explicit Engine(EngineParts parts);
  // Cancels what runs, waits for both threads; every page is free afterwards.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Error(kInvalidRequest) for ids outside the vocabulary, a prompt that is empty or too
  // long and sampling that is not there yet; Error(kDevice | kInternal) when unhealthy.
  std::shared_ptr<Generation> submit(RequestSpec spec);

  // Teacher-forced logits through normal steps: on_logits(position, logits [vocabulary]) for every
  // position of `rows` (ascending) in order, in the caller's thread. Throws as submit, and
  // Error(kInvalidRequest | kInternal | kDevice | …), the code of the event, when it fails.
  using OnLogits = std::function<void(int32_t position, std::span<const float> logits)>;
  void score(std::vector<int32_t> ids, std::vector<int32_t> rows, const OnLogits& on_logits);

  EngineStats stats() const;
  // Waits until nothing waits or runs and both threads have nothing to do.
  void wait_idle();
  // Implementations by instruction; empty on a fake.
  std::vector<exec::InstructionInfo> instructions() const;
  int64_t max_context_length() const;
  int64_t vocabulary_size() const;
  const text::Tokenizer* tokenizer() const;  // null when the plan has none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern::engine
