// A plan loaded and serving: Engine batches requests, ExecutionContext is one request's answer and
// the owner of its pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern {

struct EngineOptions {
  int32_t num_threads = 0;           // compute threads, the engine's own included; 0: one per core
  int64_t kv_capacity_tokens = 0;    // 0: all sequences at full length, within half of free memory
  int32_t max_sequences = 0;         // running together; 0: the plan's
  int32_t prefill_chunk_tokens = 0;  // prompt tokens per step; 0: the plan's max_tokens_per_step
  bool plain_kernels = false;        // the oracle: every op by its plain implementation; slow
  WeightsMemory weights_memory = WeightsMemory::kMap;
  bool verify = false;         // compare the weights' sums before anything runs
  bool prefix_cache = true;    // keep finished prompts' pages until others need them
  int32_t max_waiting = 1024;  // requests that have not begun; submit() refuses more
};

// What to generate.
struct Request {
  std::vector<int32_t> prompt_ids;
  int32_t max_new_tokens = 0;  // 0: as many as the context length holds
  Sampling sampling;
  bool ignore_eos = false;                // the model's own stop ids do not end the answer
  std::vector<int32_t> stop_ids;          // further ones
  std::vector<std::string> stop_strings;  // where one appears the answer ends before it
  // -1: no log-probabilities; 0: of each answer token; k <= 20: of the k likeliest tokens as well.
  int32_t num_logprobs = -1;
  bool prompt_logprobs = false;    // of the prompt's tokens from the second on, as it passes
  bool use_prefix_cache = true;    // take pages of an equal prefix, and leave this one's behind
  bool keep_context = false;       // the pages stay after the answer: extend(), fork(), save()
  bool recompute_context = false;  // no KV cache: every token computes the whole context again
};

struct Event {
  enum class Kind { kToken, kPromptLogprobs, kFinished };
  Kind kind = Kind::kToken;
  int32_t id = -1;             // kToken
  std::string text;            // whole UTF-8 characters that became complete
  TokenLogprobs logprobs;      // kToken with num_logprobs >= 0
  int64_t first_position = 0;  // kPromptLogprobs: of prompt_logprobs[0], >= 1
  std::vector<TokenLogprobs> prompt_logprobs;
  FinishReason reason = FinishReason::kNone;  // kFinished
  std::string message;          // kFinished with kFailed or kKvExhausted: what went wrong
  Code code = Code::kInternal;  // of the same failure
};

struct Timings {          // milliseconds
  double queue_ms = 0;    // from submit until the first tokens were computed
  double prefill_ms = 0;  // from then until the first token of the answer
  double decode_ms = 0;   // from the first token of the answer to the last
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of them, found in the prefix cache or kept
  int64_t answer_tokens = 0;
  double ttft_ms() const { return queue_ms + prefill_ms; }
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;  // of the tokens after the first
};

// One request's answer while it comes; owns the pages of its sequence. Destroying it cancels what
// still runs, and the pages go back. One consumer takes events; cancel() is safe from any thread.
class ExecutionContext {
 public:
  ExecutionContext(ExecutionContext&&) noexcept;
  ExecutionContext& operator=(ExecutionContext&&) noexcept;
  ~ExecutionContext();

  // Waits for the next event; false once kFinished was taken.
  bool next(Event& event);
  void cancel();
  std::vector<int32_t> ids() const;  // of the answer so far
  Timings timings() const;

  // For a request with keep_context whose answer ended; each throws Error(kInvalidRequest) before.
  // Pages that others needed meanwhile were taken: what they held is computed again when wanted.
  //
  // Every token of the context: prompts and answers.
  std::vector<int32_t> context_ids() const;
  // request.prompt_ids follow the context and a new answer begins. Throws as Engine::submit.
  void extend(const Request& request);
  // A second context of the same tokens; pages are shared until one of them writes.
  ExecutionContext fork() const;
  // Keeps the first num_tokens tokens. Throws Error(kInvalidRequest) when there are fewer.
  void rewind(int64_t num_tokens);
  // Tokens and pages to a file, through a temporary one beside it. Throws Error(kIo).
  void save(const std::string& path) const;

 private:
  friend class Engine;
  struct State;
  explicit ExecutionContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct EngineStats {
  int64_t steps = 0;
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  int32_t waiting = 0;
  int32_t running = 0;
  int64_t preemptions = 0;
  int64_t pages_total = 0;  // over all KV groups
  int64_t pages_free = 0;
  int64_t pages_cached = 0;  // of the prefix cache alone: given up when others need them
  int64_t pages_leased = 0;
  int64_t prefix_hit_tokens = 0;  // of prompts, taken from the prefix cache
  bool healthy = true;
  std::string fault;  // why not
};

struct PlanSummary;

// One loaded plan: weights, KV pool and one engine thread. All methods are thread-safe.
class Engine {
 public:
  // Throws Error(kNotFound | kIo | kInvalidPlan | kUnsupported | kInvalidArgument | kOutOfMemory).
  static Engine load(const std::string& plan_path, const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  // Cancels what runs and waits for it.
  ~Engine();

  // Throws Error(kInvalidRequest) for ids outside the vocabulary, an empty prompt or one that does
  // not fit the context length, sampling out of range, and where max_waiting requests wait.
  ExecutionContext submit(const Request& request);
  // `count` answers to one prompt, with seeds seed, seed + 1, …. The first computes the prompt, the
  // others take its whole pages from the prefix cache; without that each computes its own.
  std::vector<ExecutionContext> submit(const Request& request, int32_t count);
  // What ExecutionContext::save wrote, of this very plan: Error(kInvalidArgument) for another
  // one's, Error(kNotFound | kIo | kInvalidPlan) for a damaged file. All or nothing.
  ExecutionContext restore(const std::string& path);
  // Gives up every page that only the prefix cache holds.
  void flush_prefix_cache();
  EngineStats stats() const;
  const PlanSummary& summary() const;  // of the loaded plan: see plan.h
  // Which implementation runs which instruction, and why not the better ones: text, a line each.
  std::string implementations() const;

  class TextTools;
  // Text <-> ids and chat templates of the loaded model: see generate.h.
  const TextTools& text() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What this machine offers Kvern, measured in about a second.
struct DoctorReport {
  std::string version;
  std::string cpu;               // model name
  std::string instruction_sets;  // "avx2 avx512 avx512-bf16 …"
  int32_t cores = 0;             // usable by this process
  uint64_t memory_bytes = 0;
  uint64_t free_memory_bytes = 0;
  double read_bandwidth_gb_per_second = 0;  // of all cores together, from memory
  bool huge_pages = false;
  std::vector<std::string> advice;  // what would make Kvern faster here; empty: nothing
};
DoctorReport doctor();

// What this process may still take: the least of the machine's free memory and its limits.
uint64_t memory_within_reach_bytes();

// GB/s at which `num_threads` threads read 512 MiB, best of several passes: the roof of decoding.
double measure_read_bandwidth(int32_t num_threads);

}  // namespace kvern
