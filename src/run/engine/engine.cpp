#include "run/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/hash.h"
#include "base/log.h"
#include "run/engine/generation_state.h"
#include "run/engine/inbox.h"
#include "run/engine/kept_contexts.h"
#include "run/engine/kept_handle.h"
#include "run/engine/load.h"
#include "run/engine/saved_context.h"
#include "run/engine/step_loop.h"
#include "run/engine/text_thread.h"
#include "run/engine/validate.h"

namespace kvern::engine {
namespace {

RequestLimits limits_of(const EngineParts& parts) {
  RequestLimits out;
  out.vocabulary_size = parts.vocabulary_size;
  out.max_context_length = parts.max_context_length;
  out.kv_capacity_tokens = INT64_MAX;
  for (const kv::GroupConfig& group : parts.kv_groups) {
    const int64_t window_pages = ceil_div(group.window_tokens, group.page_tokens) + 1;
    if (group.window_tokens > 0 && group.num_pages >= window_pages) continue;  // of any length
    out.kv_capacity_tokens =
        std::min(out.kv_capacity_tokens, int64_t{group.num_pages} * group.page_tokens);
  }
  out.has_tokenizer = parts.tokenizer != nullptr;
  return out;
}

std::vector<exec::InstructionInfo> instructions_of(const EngineParts& parts) {
  const auto* executor = dynamic_cast<const exec::PlanExecutor*>(parts.executor.get());
  return executor == nullptr ? std::vector<exec::InstructionInfo>() : executor->instructions();
}

ContextShape shape_of(const EngineParts& parts) {
  ContextShape out;
  out.plan_name = parts.plan_name;
  out.plan_fingerprint = parts.plan_fingerprint;
  out.layout_hash = parts.layout_hash;
  for (const exec::InstructionInfo& info : instructions_of(parts)) {
    out.numerics_hash = hash64(info.numerics, out.numerics_hash);
  }
  out.vocabulary_size = parts.vocabulary_size;
  out.max_context_length = parts.max_context_length;
  out.groups = parts.kv_groups;
  for (size_t g = 0; g < out.groups.size(); ++g) {
    out.page_bytes.push_back(parts.executor->page_bytes(g));
  }
  return out;
}

}  // namespace

struct Engine::State {
  const RequestLimits limits;
  const ContextShape context_shape;
  const bool prefix_cache;
  const int32_t max_waiting;
  const std::shared_ptr<std::atomic<int32_t>> waiting = std::make_shared<std::atomic<int32_t>>(0);
  const std::vector<exec::InstructionInfo> instructions;
  const std::vector<int32_t> model_stop_ids;
  const std::shared_ptr<const text::Tokenizer> tokenizer;
  const std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::atomic<int64_t> next_seq{1};

  mutable std::mutex stats_mutex;
  EngineStats stats;
  Code fault_code = Code::kInternal;

  // The engine thread's own.
  StepLoop loop;
  Clock::time_point step_began;
  std::unordered_map<kv::SeqId, std::shared_ptr<GenerationState>> generations;

  TextThread text;
  std::thread thread;

  explicit State(EngineParts parts)
      : limits(limits_of(parts)),
        context_shape(shape_of(parts)),
        prefix_cache(parts.prefix_cache),
        max_waiting(parts.max_waiting),
        instructions(instructions_of(parts)),
        model_stop_ids(std::move(parts.model_stop_ids)),
        tokenizer(parts.tokenizer),
        loop(std::move(parts.executor), std::move(parts.kv_groups), std::move(parts.scheduler)),
        text(tokenizer, inbox) {
    publish_stats();
    thread = std::thread([this] { run(); });
  }

  ~State() {
    inbox->close();
    thread.join();
  }

  // What `task` gives back or throws. Error(kInternal) when the engine ends before.
  template <class Task>
  auto in_engine_thread(Task task) {
    using Result = decltype(task());
    auto shared = std::make_shared<std::packaged_task<Result()>>(std::move(task));
    std::future<Result> result = shared->get_future();
    if (!inbox->post_command([shared] { (*shared)(); })) {
      throw Error(Code::kInternal, "engine: it has ended");
    }
    shared.reset();
    try {
      return result.get();
    } catch (const std::future_error&) {
      throw Error(Code::kInternal, "engine: it ended, or failed, before its turn came");
    }
  }

  void run();
  void turn(Inbox::Content& content, StepOutcome& outcome);
  void break_down(const Inbox::Content& content, const char* what) noexcept;
  void handle(Inbox::Content& content);
  void deliver();
  void shut_down();
  void publish_stats();
};

// The engine thread. What escapes a turn is want of memory or our bug outside a step: the requests
// fail, the thread lives on to refuse what still comes.
void Engine::State::run() {
  StepOutcome outcome = StepOutcome::kIdle;
  for (bool open = true; open;) {
    Inbox::Content content;
    try {
      turn(content, outcome);
    } catch (const std::exception& error) {
      break_down(content, error.what());
    } catch (...) {
      break_down(content, "the engine thread: unknown exception");
    }
    open = !content.closed;
  }
}

// Whatever came, then a step; sleeps when neither is there.
void Engine::State::turn(Inbox::Content& content, StepOutcome& outcome) {
  const bool idle = std::exchange(outcome, StepOutcome::kIdle) == StepOutcome::kIdle;
  content = inbox->take(idle ? Inbox::Wait::kYes : Inbox::Wait::kNo,
                        loop.scheduler().idle() || !loop.healthy());
  handle(content);
  if (content.closed) return shut_down();
  step_began = Clock::now();
  outcome = loop.run_step();
  deliver();
  publish_stats();
}

void Engine::State::break_down(const Inbox::Content& content, const char* what) noexcept {
  for (const Inbox::Submitted& submitted : content.submitted) {
    if (submitted.generation != nullptr) submitted.generation->fail(Code::kInternal, what);
  }
  for (const auto& [seq, generation] : generations) generation->fail(Code::kInternal, what);
  generations.clear();
  try {
    loop.fail(what, Code::kInternal);
    publish_stats();
  } catch (const std::exception&) {  // unhealthy all the same: the next turn tries again
  }
}

void Engine::State::handle(Inbox::Content& content) {
  sched::Scheduler& scheduler = loop.scheduler();
  for (Inbox::Submitted& submitted : content.submitted) {
    text.add(submitted.generation);
    generations.emplace(submitted.request.id, std::move(submitted.generation));
    scheduler.submit(std::move(submitted.request));
  }
  for (const kv::SeqId seq : content.flow) {
    const auto it = generations.find(seq);
    if (it != generations.end()) scheduler.set_paused(seq, it->second->wants_pause());
  }
  for (const Inbox::Finished& finished : content.finished) {
    scheduler.finish(finished.seq, finished.reason, "");
  }
  for (const kv::SeqId seq : content.dropped) scheduler.drop_context(seq);
  for (const std::function<void()>& command : content.commands) command();
  if (!content.fault.empty() && loop.healthy()) loop.fail(content.fault, Code::kInternal);
  if (!loop.healthy()) {
    scheduler.finish_all(sched::FinishReason::kFailed, loop.fault(), loop.fault_code());
  }
}

void Engine::State::deliver() {
  std::vector<sched::Event> events = loop.scheduler().take_events();
  for (const sched::Event& event : events) {
    const auto it = generations.find(event.seq);
    if (it == generations.end()) continue;  // it has failed already
    GenerationState& generation = *it->second;
    // Events come out after the step that a sequence started in: its prefill is most of that step.
    if (event.kind == sched::EventKind::kStarted) {
      generation.note_started(step_began, event.cached_tokens);
    }
    if (event.kind == sched::EventKind::kFinished) {
      generations.erase(it);
    } else if (generation.note_posted(event.kind)) {
      loop.scheduler().set_paused(event.seq, true);
    }
  }
  text.post(std::move(events), Clock::now());
}

void Engine::State::shut_down() {
  loop.scheduler().finish_all(sched::FinishReason::kCancelled, "");
  loop.scheduler().drop_all_contexts();
  while (loop.run_step() != StepOutcome::kIdle) {  // the last releases
  }
  deliver();
  publish_stats();
}

void Engine::State::publish_stats() {
  const StepCounters& counters = loop.counters();
  const std::scoped_lock lock(stats_mutex);
  stats.healthy = loop.healthy();
  fault_code = loop.fault_code();
  stats.steps = counters.steps;
  stats.prefill_tokens = counters.prefill_tokens;
  stats.decode_tokens = counters.decode_tokens;
  stats.prefill_ms = counters.prefill_ms;
  stats.decode_ms = counters.decode_ms;
  stats.scheduler = loop.scheduler().counts();
  stats.pages = loop.pages().counts();
  stats.fault = loop.fault();
}

Engine::Engine(std::shared_ptr<const plan::PlanFile> file, const EngineOptions& options)
    : Engine(load_parts(std::move(file), options)) {}

Engine::Engine(EngineParts parts) try : state_(std::make_unique<State>(std::move(parts))) {
} catch (const std::system_error& error) {
  throw Error(Code::kOutOfMemory,
              fmt::format("engine: a thread cannot be started: {}; raise the limit on processes",
                          error.what()));
}

Engine::~Engine() = default;

void Engine::check(const RequestSpec& spec) const {
  validate(spec, state_->limits);
  check_base(spec.base.get());
  const std::scoped_lock lock(state_->stats_mutex);
  if (!state_->stats.healthy) {
    throw Error(state_->fault_code,
                "engine: unhealthy since: " + state_->stats.fault + "; load the plan again");
  }
}

void Engine::check_base(const KeptHandle* base) const {
  if (base == nullptr || base->belongs_to(*state_->inbox)) return;
  throw Error(Code::kInvalidRequest, "request: the kept context is another engine's");
}

std::shared_ptr<Generation> Engine::submit(RequestSpec spec) {
  std::shared_ptr<const KeptHandle> base = std::move(spec.base);
  return submit(std::move(spec), base);
}

std::shared_ptr<Generation> Engine::submit(RequestSpec spec,
                                           std::shared_ptr<const KeptHandle>& base) {
  check(spec);
  check_base(base.get());
  if (!state_->prefix_cache) spec.use_prefix_cache = false;
  std::vector<std::string> stop_strings = std::move(spec.stop_strings);
  sched::Request request = to_request(std::move(spec), state_->limits, state_->model_stop_ids);
  request.id = kv::SeqId(state_->next_seq.fetch_add(1));
  auto generation = std::make_shared<GenerationState>(
      request.id, request.prompt_ids.size(), std::move(stop_strings), state_->inbox,
      WaitingPlace(state_->waiting, state_->max_waiting));
  std::shared_ptr<const KeptHandle> kept;
  if (request.keep_context) kept = std::make_shared<KeptHandle>(request.id, state_->inbox);
  auto handle = std::make_shared<GenerationHandle>(generation, std::move(kept));
  if (base != nullptr) request.base = base->seq();
  Inbox::Submitted submitted{std::move(request), std::move(generation)};
  submitted.request.base_use = std::move(base);
  try {
    state_->inbox->submit(submitted);
  } catch (...) {
    base = std::static_pointer_cast<const KeptHandle>(std::move(submitted.request.base_use));
    throw;
  }
  return handle;
}

void Engine::score(std::vector<int32_t> ids, std::vector<int32_t> rows, const OnLogits& on_logits) {
  RequestSpec spec;
  spec.prompt_ids = std::move(ids);
  spec.purpose = step::Purpose::kExport;
  spec.export_rows = rows;
  const std::shared_ptr<Generation> generation = submit(std::move(spec));
  const auto vocabulary = static_cast<size_t>(state_->limits.vocabulary_size);
  Event event;
  while (generation->next(event)) {
    if (event.kind == EventKind::kFailed) throw Error(event.code, event.message);
    if (event.kind != EventKind::kLogits) continue;
    const size_t num_rows = event.logits.size() / vocabulary;
    for (size_t r = 0; r < num_rows; ++r) {
      on_logits(rows[static_cast<size_t>(event.first_row) + r],
                std::span(event.logits).subspan(r * vocabulary, vocabulary));
    }
  }
}

void Engine::save_context(const KeptHandle& kept, std::vector<int32_t> ids,
                          const std::string& path) {
  if (!kept.belongs_to(*state_->inbox)) {
    throw Error(Code::kInvalidRequest, "save: the kept context is another engine's");
  }
  const ContextShape& shape = state_->context_shape;
  const ExportedContext pages = state_->in_engine_thread(
      [&] { return export_context(state_->loop, shape, kept.seq(), ids); });
  if (pages.computed == 0 && ids.size() > 1) {  // the last sample of an answer is in no page
    log::warn(
        "context '{}': no page holds any of its {} tokens (others needed them); it is saved "
        "without pages and computed again when it goes on",
        path, ids.size());
  }
  SavedContext context;
  context.ids = std::move(ids);
  context.computed = pages.computed;
  context.pages = pages_of(shape, pages.computed);
  std::span<const std::byte> rest = pages.bytes;
  for (size_t g = 0; g < context.pages.size(); ++g) {
    const auto size = static_cast<size_t>(context.pages[g].num_pages * shape.page_bytes[g]);
    context.pages[g].bytes = rest.first(size);
    rest = rest.subspan(size);
  }
  write_saved_context(path, shape, context);
}

RestoredContext Engine::restore_context(const std::string& path) {
  // Not mapped: a file that others write meanwhile must not end the process.
  const std::vector<std::byte> bytes = read_saved_context(path, state_->context_shape);
  SavedContext context = parse_saved_context(bytes, path, state_->context_shape);
  auto kept = std::make_shared<KeptHandle>(kv::SeqId(state_->next_seq.fetch_add(1)), state_->inbox);
  const bool room =
      state_->in_engine_thread([&] { return import_context(state_->loop, kept->seq(), context); });
  if (!room || context.other_numerics) {
    log::warn("context '{}': {}; its {} tokens are computed again when it goes on", path,
              room ? "it was computed by implementations of other numerics (another processor, or "
                     "the plain kernels)"
                   : "there is no room for its pages",
              context.ids.size());
  }
  return {std::move(context.ids), std::move(kept)};
}

void Engine::flush_prefix_cache() {
  state_->in_engine_thread([this] {
    state_->loop.pages().flush_cache();
    state_->publish_stats();
  });
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(state_->stats_mutex);
  return state_->stats;
}

void Engine::wait_idle() {
  state_->inbox->wait_idle();
  state_->text.wait_drained();
}

std::vector<exec::InstructionInfo> Engine::instructions() const {
  return state_->instructions;
}

int64_t Engine::max_context_length() const {
  return state_->limits.max_context_length;
}

int64_t Engine::vocabulary_size() const {
  return state_->limits.vocabulary_size;
}

const text::Tokenizer* Engine::tokenizer() const {
  return state_->tokenizer.get();
}

}  // namespace kvern::engine
