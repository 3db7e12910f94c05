#include "run/engine/engine.h"

#include <fmt/format.h>

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
  return out;
}

engine::RequestSpec spec_of(const Request& request) {
  engine::RequestSpec spec;
  spec.prompt_ids = request.prompt_ids;
  spec.max_new_tokens = request.max_new_tokens;
  spec.ignore_eos = request.ignore_eos;
  spec.stop_ids = request.stop_ids;
  spec.stop_strings = request.stop_strings;
  spec.sampling.temperature = static_cast<float>(request.sampling.temperature);
  spec.recompute_context = request.recompute_context;
  return spec;
}

}  // namespace

struct ExecutionContext::State {
  std::shared_ptr<engine::Generation> generation;
};

ExecutionContext::ExecutionContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExecutionContext::ExecutionContext(ExecutionContext&&) noexcept = default;
ExecutionContext& ExecutionContext::operator=(ExecutionContext&&) noexcept = default;
ExecutionContext::~ExecutionContext() = default;

bool ExecutionContext::next(Event& event) {
  engine::Event from;
  if (!state_->generation->next(from)) return false;
  event = {};
  event.kind =
      from.kind == engine::EventKind::kToken ? Event::Kind::kToken : Event::Kind::kFinished;
  event.id = from.id;
  event.text = std::move(from.text);
  event.reason = reason_of(from.finish_reason);
  event.message = std::move(from.message);
  event.code = from.code;
  return true;
}

void ExecutionContext::cancel() {
  state_->generation->cancel();
}

std::vector<int32_t> ExecutionContext::ids() const {
  return state_->generation->ids();
}

Timings ExecutionContext::timings() const {
  const engine::Timings from = state_->generation->timings();
  Timings out;
  out.queue_ms = from.queue_ms;
  out.prefill_ms = from.prefill_ms;
  out.decode_ms = from.decode_ms;
  out.prompt_tokens = from.prompt_tokens;
  out.answer_tokens = from.answer_tokens;
  out.prefill_tokens_per_second = from.prefill_tokens_per_s();
  out.decode_tokens_per_second = from.decode_tokens_per_s();
  return out;
}

struct Engine::State {
  State(const std::string& path, const EngineOptions& options)
      : file(std::make_shared<const plan::PlanFile>(path)),
        engine(file, options_of(options)),
        // The engine, which owns the tokenizer, outlives its text tools.
        text(make_text_tools(file, {std::shared_ptr<void>(), engine.tokenizer()})) {}

  std::shared_ptr<const plan::PlanFile> file;
  engine::Engine engine;
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
  state->generation = state_->engine.submit(spec_of(request));
  return ExecutionContext(std::move(state));
}

EngineStats Engine::stats() const {
  const engine::EngineStats from = state_->engine.stats();
  EngineStats out;
  out.steps = from.steps;
  out.prefill_tokens = from.prefill_tokens;
  out.decode_tokens = from.decode_tokens;
  out.prefill_ms = from.prefill_ms;
  out.decode_ms = from.decode_ms;
  out.waiting = from.scheduler.waiting;
  out.running = from.scheduler.running;
  out.preemptions = from.scheduler.preemptions;
  for (const kv::PoolCounts& pages : from.pages) {
    out.pages_total += pages.total;
    out.pages_free += pages.free;
    out.pages_leased += pages.leased;
  }
  out.healthy = from.healthy;
  out.fault = from.fault;
  return out;
}

std::string Engine::implementations() const {
  std::string out;
  for (const exec::InstructionInfo& i : state_->engine.instructions()) {
    out += fmt::format("{:<32} {:<32} {}\n", i.source, i.implementation, i.numerics);
  }
  return out;
}

const Engine::TextTools& Engine::text() const {
  return *state_->text;
}

}  // namespace kvern
