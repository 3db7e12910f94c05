#include "base/thread_pool.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "kvern/error.h"

namespace kvern {
namespace {

constexpr int kMaxThreads = 4096;
constexpr auto kSpin = std::chrono::microseconds(20);

// True once `ready` holds; false when 20 us passed without it.
template <class Ready>
bool spin_until(const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace

struct ThreadPool::State {
  using Fn = FunctionRef<void(int64_t, int)>;

  std::vector<std::thread> workers;
  int num_threads = 1;

  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::atomic<uint64_t> generation{0};  // one more for every list of tasks
  std::atomic<bool> stop{false};
  std::atomic<int> parked{0};

  // The list ends when its tasks have, whether or not a worker has even woken for it: the host may
  // have stolen its core. Who draws a number above 0 from `left` holds a task, so the caller still
  // waits and num_tasks and fn are those of that task; who comes late draws 0 or less.
  alignas(64) std::atomic<int64_t> left{0};
  alignas(64) std::atomic<int64_t> unfinished{0};
  int64_t num_tasks = 0;
  const Fn* fn = nullptr;
  std::atomic<bool> failed{false};
  std::exception_ptr failure;

  // True when this thread ended the list.
  bool take_tasks(int thread) {
    int64_t ended = 0;
    for (;;) {
      const int64_t drawn = left.fetch_sub(1, std::memory_order_acq_rel);
      if (drawn <= 0) break;
      ++ended;
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        (*fn)(num_tasks - drawn, thread);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
    return ended > 0 && unfinished.fetch_sub(ended, std::memory_order_acq_rel) == ended;
  }

  // Waits for a generation other than `seen`; false at shutdown.
  bool wait_for_work(uint64_t seen) {
    const auto ready = [&] { return generation.load(std::memory_order_acquire) != seen || stop; };
    if (!spin_until(ready)) {
      std::unique_lock lock(mutex);
      parked.fetch_add(1);
      wake.wait(lock, ready);
      parked.fetch_sub(1);
    }
    return !stop;
  }

  void worker(int thread) {
    uint64_t seen = 0;
    while (wait_for_work(seen)) {
      seen = generation.load(std::memory_order_acquire);
      if (take_tasks(thread)) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void stop_workers() {
    stop = true;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
    for (std::thread& thread : workers) thread.join();
    workers.clear();
  }

  void wake_workers() {
    // The seq_cst increments of generation and parked order this load after the one and a parking
    // worker's check after the other: either we see it parked or it sees the new generation.
    if (parked.load() == 0) return;
    { const std::lock_guard lock(mutex); }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  if (num_threads < 1 || num_threads > kMaxThreads) {
    throw Error(Code::kInvalidArgument,
                fmt::format("{} compute threads; 1 to {} are possible", num_threads, kMaxThreads));
  }
  state_->num_threads = num_threads;
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      state_->workers.emplace_back([state = state_.get(), thread] { state->worker(thread); });
    }
  } catch (const std::system_error& error) {
    const size_t started = state_->workers.size() + 1;
    state_->stop_workers();
    throw Error(Code::kOutOfMemory,
                fmt::format("only {} of {} compute threads could be started: {}", started,
                            num_threads, error.what()));
  }
}

ThreadPool::~ThreadPool() {
  state_->stop_workers();
}

int ThreadPool::num_threads() const {
  return state_->num_threads;
}

void ThreadPool::parallel_for(int64_t num_tasks, FunctionRef<void(int64_t, int)> fn) {
  State& s = *state_;
  if (num_tasks <= 0) return;
  if (s.workers.empty() || num_tasks == 1) {
    for (int64_t task = 0; task < num_tasks; ++task) fn(task, 0);
    return;
  }
  s.fn = &fn;
  s.num_tasks = num_tasks;
  s.failed = false;
  s.failure = nullptr;
  s.unfinished.store(num_tasks, std::memory_order_relaxed);
  s.left.store(num_tasks, std::memory_order_release);
  s.generation.fetch_add(1);
  s.wake_workers();
  s.take_tasks(0);
  const auto finished = [&] { return s.unfinished.load(std::memory_order_acquire) == 0; };
  if (!spin_until(finished)) {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, finished);
  }
  if (s.failed) std::rethrow_exception(s.failure);
}

}  // namespace kvern
