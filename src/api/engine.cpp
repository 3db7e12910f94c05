#include "run/engine/engine.h"

#include <fmt/format.h>

#include <random>

#include "api/context_state.h"
#include "api/plan_summary.h"
#include "api/text_tools.h"
#include "kvern/engine.h"

namespace kvern {
namespace {

FinishReason reason_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kNone:
      return FinishReason::kNone;
    case engine::FinishReason::kStop:
      return FinishReason::kStop;
    case engine::FinishReason::kLength:
      return FinishReason::kLength;
    case engine::FinishReason::kExported:
      return FinishReason::kLength;
    case engine::FinishReason::kCancelled:
      return FinishReason::kCancelled;
    case engine::FinishReason::kKvExhausted:
      return FinishReason::kKvExhausted;
    case engine::FinishReason::kFailed:
      return FinishReason::kFailed;
  }
  return FinishReason::kFailed;
}

engine::EngineOptions options_of(const EngineOptions& options) {
  engine::EngineOptions out;
  out.num_threads = options.num_threads;
  out.kv_capacity_tokens = options.kv_capacity_tokens;
  out.max_sequences = options.max_sequences;
  out.prefill_chunk_tokens = options.prefill_chunk_tokens;
  out.plain_kernels = options.plain_kernels;
  out.weights_memory = options.weights_memory == WeightsMemory::kCopy ? exec::WeightsMemory::kCopy
                                                                      : exec::WeightsMemory::kMap;
  out.verify = options.verify;
  out.prefix_cache = options.prefix_cache;
  out.max_waiting = options.max_waiting;
  return out;
}

uint64_t random_seed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

step::SamplingParams sampling_of(const Sampling& from) {
  step::SamplingParams out;
  out.temperature = static_cast<float>(from.temperature);
  out.top_k = from.top_k;
  out.top_p = static_cast<float>(from.top_p);
  out.min_p = static_cast<float>(from.min_p);
  out.repetition_penalty = static_cast<float>(from.repetition_penalty);
  out.presence_penalty = static_cast<float>(from.presence_penalty);
  out.frequency_penalty = static_cast<float>(from.frequency_penalty);
  out.logit_bias = from.logit_bias;
  out.seed = from.seed ? *from.seed : random_seed();
  return out;
}

Event::Kind kind_of(engine::EventKind kind) {
  if (kind == engine::EventKind::kToken) return Event::Kind::kToken;
  if (kind == engine::EventKind::kPromptLogprobs) return Event::Kind::kPromptLogprobs;
  return Event::Kind::kFinished;
}

engine::RequestSpec spec_of(const Request& request) {
  engine::RequestSpec spec;
  spec.prompt_ids = request.prompt_ids;
  spec.max_new_tokens = request.max_new_tokens;
  spec.ignore_eos = request.ignore_eos;
  spec.stop_ids = request.stop_ids;
  spec.stop_strings = request.stop_strings;
  spec.sampling = sampling_of(request.sampling);
  spec.num_logprobs = request.num_logprobs;
  spec.prompt_logprobs = request.prompt_logprobs;
  spec.recompute_context = request.recompute_context;
  spec.use_prefix_cache = request.use_prefix_cache;
  spec.keep_context = request.keep_context;
  return spec;
}

}  // namespace

engine::RequestSpec to_spec(const Request& request) {
  return spec_of(request);
}

ExecutionContext::ExecutionContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExecutionContext::ExecutionContext(ExecutionContext&&) noexcept = default;
ExecutionContext& ExecutionContext::operator=(ExecutionContext&&) noexcept = default;
ExecutionContext::~ExecutionContext() = default;

bool ExecutionContext::next(Event& event) {
  engine::Event from;
  const std::shared_ptr<engine::Generation> generation = state_->generation();
  if (generation == nullptr || !generation->next(from)) return false;
  event = {};
  event.kind = kind_of(from.kind);
  event.id = from.id;
  if (event.kind == Event::Kind::kPromptLogprobs) {
    event.first_position = from.first_position;
    event.prompt_logprobs = std::move(from.logprobs);
  } else if (!from.logprobs.empty()) {
    event.logprobs = std::move(from.logprobs[0]);
  }
  event.text = std::move(from.text);
  event.reason = reason_of(from.finish_reason);
  event.message = std::move(from.message);
  event.code = from.code;
  return true;
}

void ExecutionContext::cancel() {
  if (const auto generation = state_->generation()) generation->cancel();
}

std::vector<int32_t> ExecutionContext::ids() const {
  const std::shared_ptr<engine::Generation> generation = state_->generation();
  return generation == nullptr ? std::vector<int32_t>() : generation->ids();
}

Timings ExecutionContext::timings() const {
  Timings out;
  const std::shared_ptr<engine::Generation> generation = state_->generation();
  if (generation == nullptr) return out;
  const engine::Timings from = generation->timings();
  out.queue_ms = from.queue_ms;
  out.prefill_ms = from.prefill_ms;
  out.decode_ms = from.decode_ms;
  out.prompt_tokens = from.prompt_tokens;
  out.cached_tokens = from.cached_tokens;
  out.answer_tokens = from.answer_tokens;
  out.prefill_tokens_per_second = from.prefill_tokens_per_s();
  out.decode_tokens_per_second = from.decode_tokens_per_s();
  return out;
}

struct Engine::State {
  State(const std::string& path, const EngineOptions& options)
      : file(std::make_shared<const plan::PlanFile>(path)),
        engine(std::make_shared<engine::Engine>(file, options_of(options))),
        // The engine, which owns the tokenizer, outlives its text tools.
        text(make_text_tools(file, {std::shared_ptr<void>(), engine->tokenizer()})) {}

  std::shared_ptr<const plan::PlanFile> file;
  PlanSummary summary = summarise(*file);
  std::shared_ptr<engine::Engine> engine;  // contexts that outlive it find it gone
  std::unique_ptr<TextTools> text;
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Engine Engine::load(const std::string& plan_path, const EngineOptions& options) {
  return Engine(std::make_unique<State>(plan_path, options));
}

ExecutionContext Engine::submit(const Request& request) {
  auto state = std::make_unique<ExecutionContext::State>();
  state->engine = state_->engine;
  if (request.keep_context) state->prompt_ids = request.prompt_ids;
  state->set_generation(state_->engine->submit(spec_of(request)));
  state->kept = state->generation()->kept();
  return ExecutionContext(std::move(state));
}

// All or none: what is refused is refused before the first is submitted, since all are alike.
std::vector<ExecutionContext> Engine::submit(const Request& request, int32_t count) {
  constexpr int32_t kMaxCount = 128;
  if (count < 1 || count > kMaxCount) {
    throw Error(Code::kInvalidRequest,
                fmt::format("request: {} answers; 1 to {} are possible", count, kMaxCount));
  }
  Request one = request;
  one.sampling.seed = request.sampling.seed ? *request.sampling.seed : random_seed();
  std::vector<ExecutionContext> out;
  for (int32_t i = 0; i < count; ++i) {
    out.push_back(submit(one));
    ++*one.sampling.seed;
  }
  return out;
}

ExecutionContext Engine::restore(const std::string& path) {
  engine::RestoredContext restored = state_->engine->restore_context(path);
  auto state = std::make_unique<ExecutionContext::State>();
  state->engine = state_->engine;
  state->kept = std::move(restored.kept);
  state->context_ids = std::move(restored.ids);
  return ExecutionContext(std::move(state));
}

void Engine::flush_prefix_cache() {
  state_->engine->flush_prefix_cache();
}

EngineStats Engine::stats() const {
  const engine::EngineStats from = state_->engine->stats();
  EngineStats out;
  out.steps = from.steps;
  out.prefill_tokens = from.prefill_tokens;
  out.decode_tokens = from.decode_tokens;
  out.prefill_ms = from.prefill_ms;
  out.decode_ms = from.decode_ms;
  out.waiting = from.scheduler.waiting;
  out.running = from.scheduler.running;
  out.preemptions = from.scheduler.preemptions;
  out.prefix_hit_tokens = from.scheduler.prefix_hit_tokens;
  for (const kv::PoolCounts& pages : from.pages) {
    out.pages_total += pages.total;
    out.pages_free += pages.free;
    out.pages_cached += pages.cached;
    out.pages_leased += pages.leased;
  }
  out.healthy = from.healthy;
  out.fault = from.fault;
  return out;
}

std::string Engine::implementations() const {
  std::string out;
  for (const exec::InstructionInfo& i : state_->engine->instructions()) {
    out += fmt::format("{:<32} {:<32} {}", i.source, i.implementation, i.numerics);
    if (!i.better.empty()) out += "; not " + i.better;
    out += '\n';
  }
  return out;
}

const PlanSummary& Engine::summary() const {
  return state_->summary;
}

const Engine::TextTools& Engine::text() const {
  return *state_->text;
}

}  // namespace kvern
