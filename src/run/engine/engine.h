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

inline constexpr int32_t kDefaultMaxWaiting = 1024;

struct EngineOptions {
  int num_threads = 0;              // of the compute pool, the engine thread included; 0: all
  int64_t kv_capacity_tokens = 0;   // 0: every sequence at full length, half of free memory at most
  int32_t max_tokens_per_step = 0;  // 0: the profile's
  int32_t prefill_chunk_tokens = 0;  // prompt tokens per step; 0: max_tokens_per_step
  int32_t max_sequences = 0;         // 0: the profile's
  bool plain_kernels = false;
  exec::WeightsMemory weights_memory = exec::WeightsMemory::kMap;
  bool verify = false;  // sums the weights before anything runs
  bool prefix_cache = true;
  int32_t max_waiting = kDefaultMaxWaiting;  // requests that have not begun
};

struct RequestSpec {
  std::vector<int32_t> prompt_ids;
  int32_t max_new_tokens = 0;  // 0: as much as the context length holds
  bool ignore_eos = false;     // the model's own stop ids do not end the answer
  std::vector<int32_t> stop_ids;
  std::vector<std::string> stop_strings;  // are not part of the text
  step::SamplingParams sampling;
  bool recompute_context = false;  // --no-kv-cache
  bool use_prefix_cache = true;
  bool keep_context = false;
  // A kept context of this engine that prompt_ids begin with, or with a part of: it goes on in its
  // pages. With the last reference its own hold on them ends.
  std::shared_ptr<const KeptHandle> base;
  step::Purpose purpose = step::Purpose::kSample;
  std::vector<int32_t> export_rows;  // kExport: ascending positions of the prompt
  int32_t num_logprobs = -1;         // these two as kvern::Request
  bool prompt_logprobs = false;
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
  bool prefix_cache = true;
  int32_t max_waiting = kDefaultMaxWaiting;
  std::string plan_name;  // these three: of saved contexts
  uint64_t plan_fingerprint = 0;
  uint64_t layout_hash = 0;
};

struct RestoredContext {
  std::vector<int32_t> ids;
  std::shared_ptr<const KeptHandle> kept;
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
  // long, sampling out of range, and where max_waiting requests wait already; Error(kDevice |
  // kInternal) when unhealthy.
  std::shared_ptr<Generation> submit(RequestSpec spec);
  // spec.base is `base`, which is taken only when nothing is thrown.
  std::shared_ptr<Generation> submit(RequestSpec spec, std::shared_ptr<const KeptHandle>& base);

  // Teacher-forced logits through normal steps: on_logits(position, logits [vocabulary]) for every
  // position of `rows` (ascending) in order, in the caller's thread. Throws as submit, and
  // Error(kInvalidRequest | kInternal | kDevice | …), the code of the event, when it fails.
  using OnLogits = std::function<void(int32_t position, std::span<const float> logits)>;
  void score(std::vector<int32_t> ids, std::vector<int32_t> rows, const OnLogits& on_logits);

  // Throws as submit, before anything happens.
  void check(const RequestSpec& spec) const;

  // `ids` is the context as its user sees it: what the pages hold of it goes to the file. A context
  // that gave up its pages is saved as ids alone, with a warning, and computed again when restored.
  // Throws Error(kIo | kNotFound | kInvalidArgument | kDevice).
  void save_context(const KeptHandle& kept, std::vector<int32_t> ids, const std::string& path);
  // All pages or none: where there is no room for them they are computed again when wanted. Throws
  // as PlanFile, and Error(kInvalidArgument) for another plan's.
  RestoredContext restore_context(const std::string& path);
  void flush_prefix_cache();

  EngineStats stats() const;
  // Waits until nothing waits or runs and both threads have nothing to do.
  void wait_idle();
  // Implementations by instruction; empty on a fake.
  std::vector<exec::InstructionInfo> instructions() const;
  int64_t max_context_length() const;
  int64_t vocabulary_size() const;
  const text::Tokenizer* tokenizer() const;  // null when the plan has none

 private:
  void check_base(const KeptHandle* base) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern::engine
