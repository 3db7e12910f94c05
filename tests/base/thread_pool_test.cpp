#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "kvern/error.h"

namespace kvern {
namespace {

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      pool.parallel_for(tasks, [&](int64_t task, int thread) {
        EXPECT_LT(thread, threads);
        ++runs[static_cast<size_t>(task)];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, TheWorkersTakePart) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<int> seen;
  pool.parallel_for(30, [&](int64_t, int thread) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::scoped_lock lock(mutex);
    seen.insert(thread);
  });
  EXPECT_GT(seen.size(), 1u);
}

TEST(ThreadPool, TheFirstExceptionArrivesAndThePoolLivesOn) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool.parallel_for(50,
                                   [&](int64_t task, int) {
                                     if (task == 13) throw Error(Code::kIo, "thirteen");
                                   }),
                 Error);
    std::atomic<int> sum{0};
    pool.parallel_for(10, [&](int64_t task, int) { sum += static_cast<int>(task); });
    EXPECT_EQ(sum, 45);
  }
}

TEST(ThreadPool, ManyShortLists) {
  ThreadPool pool(4);
  std::atomic<int64_t> total{0};
  for (int i = 0; i < 5000; ++i) pool.parallel_for(3, [&](int64_t task, int) { total += task; });
  EXPECT_EQ(total, 15000);
}

TEST(ThreadPool, WakesAfterParking) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // workers park after 20 us
    std::atomic<int> runs{0};
    pool.parallel_for(8, [&](int64_t, int) { ++runs; });
    EXPECT_EQ(runs, 8);
  }
}

TEST(ThreadPool, NoThreadsIsACallersMistake) {
  EXPECT_THROW(ThreadPool(0), Error);
}

}  // namespace
}  // namespace kvern
