// What an ExecutionContext holds: its latest answer, and with keep_context what it can go on from.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kvern/engine.h"
#include "run/engine/engine.h"

namespace kvern {

struct ExecutionContext::State {
  std::weak_ptr<engine::Engine> engine;
  std::shared_ptr<const engine::KeptHandle> kept;   // null: not kept
  std::vector<int32_t> prompt_ids;                  // of `generation`
  std::optional<std::vector<int32_t>> context_ids;  // set where they are not prompt and answer

  // Null: forked or restored. cancel() comes from any thread, while extend() may put another there.
  std::shared_ptr<engine::Generation> generation() const {
    const std::scoped_lock lock(generation_mutex_);
    return generation_;
  }
  void set_generation(std::shared_ptr<engine::Generation> generation) {
    {
      const std::scoped_lock lock(generation_mutex_);
      generation_.swap(generation);
    }  // the old one ends unlocked
  }

  // Throws Error(kInvalidRequest) unless the context can go on; `what` is the caller's verb.
  void check_kept(const char* what) const;
  std::shared_ptr<engine::Engine> live_engine(const char* what) const;
  std::vector<int32_t> ids() const;

 private:
  mutable std::mutex generation_mutex_;
  std::shared_ptr<engine::Generation> generation_;
};

engine::RequestSpec to_spec(const Request& request);

}  // namespace kvern
