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
  std::atomic<int> busy{0};             // workers that have not left the current list
  std::atomic<bool> stop{false};
  std::atomic<int> parked{0};

  std::atomic<int64_t> next{0};
  int64_t num_tasks = 0;
  const Fn* fn = nullptr;
  std::atomic<bool> failed{false};
  std::exception_ptr failure;

  void take_tasks(int thread) {
    for (;;) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= num_tasks) return;
      try {
        (*fn)(task, thread);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
        next.store(num_tasks, std::memory_order_relaxed);
      }
    }
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
      take_tasks(thread);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) {
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
  s.next.store(0, std::memory_order_relaxed);
  s.failed = false;
  s.failure = nullptr;
  s.busy.store(static_cast<int>(s.workers.size()), std::memory_order_relaxed);
  s.generation.fetch_add(1);
  s.wake_workers();
  s.take_tasks(0);
  const auto finished = [&] { return s.busy.load(std::memory_order_acquire) == 0; };
  if (!spin_until(finished)) {
    std::unique_lock lock(s.mutex);
    s.done.wait(lock, finished);
  }
  if (s.failed) std::rethrow_exception(s.failure);
}

}  // namespace kvern
