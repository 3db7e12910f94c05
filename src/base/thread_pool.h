// The compute pool: the caller and num_threads - 1 workers share a list of tasks.
// Workers spin at most 20 us for the next list, then park, so that an idle engine costs nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace kvern {

class ThreadPool {
 public:
  // num_threads counts the caller: 1 means no worker at all. Throws Error(kInvalidArgument)
  // below 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls fn(task, thread) for every task in [0, num_tasks), each once, in any order and on any
  // thread; returns when all have ended and rethrows the first exception. Tasks are handed out one
  // by one, so that a thread the host has stolen does not hold up the others. Not reentrant; one
  // caller at a time. What a task computes must not depend on `thread` (0 is the caller).
  void parallel_for(int64_t num_tasks, FunctionRef<void(int64_t task, int thread)> fn);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvern
