// Kept contexts: going on, forking, rewinding, saving.
#include <fmt/format.h>

#include "api/context_state.h"

namespace kvern {

void ExecutionContext::State::check_kept(const char* what) const {
  if (kept == nullptr) {
    throw Error(Code::kInvalidRequest,
                fmt::format("{}: the context is not kept; set keep_context in its request", what));
  }
  const std::shared_ptr<engine::Generation> last = generation();
  if (last != nullptr && !last->ended()) {
    throw Error(Code::kInvalidRequest,
                fmt::format("{}: the answer has not ended; take its events or cancel it", what));
  }
}

std::shared_ptr<engine::Engine> ExecutionContext::State::live_engine(const char* what) const {
  std::shared_ptr<engine::Engine> out = engine.lock();
  if (out == nullptr) {
    throw Error(Code::kInvalidRequest, fmt::format("{}: the context's engine is gone", what));
  }
  return out;
}

std::vector<int32_t> ExecutionContext::State::ids() const {
  if (context_ids) return *context_ids;
  std::vector<int32_t> out = prompt_ids;
  const std::vector<int32_t> answer = generation()->ids();
  out.insert(out.end(), answer.begin(), answer.end());
  return out;
}

std::vector<int32_t> ExecutionContext::context_ids() const {
  state_->check_kept("context_ids");
  return state_->ids();
}

void ExecutionContext::extend(const Request& request) {
  state_->check_kept("extend");
  const std::shared_ptr<engine::Engine> engine = state_->live_engine("extend");
  engine::RequestSpec spec = to_spec(request);
  std::vector<int32_t> context = state_->ids();
  std::vector<int32_t> prompt_ids = context;
  prompt_ids.insert(prompt_ids.end(), spec.prompt_ids.begin(), spec.prompt_ids.end());
  spec.prompt_ids = prompt_ids;
  spec.keep_context = true;
  engine->check(spec);
  // The last answer ends here, and its reference with it. Should the submission fail, the context
  // is what it was: its tokens no longer come from that answer.
  state_->context_ids = std::move(context);
  state_->set_generation(nullptr);
  // No other reference stays: the pages are then written on without a copy.
  std::shared_ptr<engine::Generation> generation = engine->submit(std::move(spec), state_->kept);
  state_->kept = generation->kept();
  state_->set_generation(std::move(generation));
  state_->prompt_ids = std::move(prompt_ids);
  state_->context_ids.reset();
}

ExecutionContext ExecutionContext::fork() const {
  state_->check_kept("fork");
  auto state = std::make_unique<State>();
  state->engine = state_->engine;
  state->kept = state_->kept;
  state->context_ids = state_->ids();
  return ExecutionContext(std::move(state));
}

void ExecutionContext::rewind(int64_t num_tokens) {
  state_->check_kept("rewind");
  std::vector<int32_t> ids = state_->ids();
  if (num_tokens < 0 || num_tokens > static_cast<int64_t>(ids.size())) {
    throw Error(Code::kInvalidRequest,
                fmt::format("rewind: to {} tokens; the context has {}", num_tokens, ids.size()));
  }
  ids.resize(static_cast<size_t>(num_tokens));
  state_->context_ids = std::move(ids);
}

void ExecutionContext::save(const std::string& path) const {
  state_->check_kept("save");
  state_->live_engine("save")->save_context(*state_->kept, state_->ids(), path);
}

}  // namespace kvern
