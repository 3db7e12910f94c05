#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kvern/error.h"

namespace kvern {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int num_threads = 1; num_threads <= 4; ++num_threads) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const int64_t num_tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(num_tasks));
      std::atomic<int> wrong_threads{0};
      pool.parallel_for(num_tasks, [&](int64_t task, int thread) {
        ++runs[static_cast<size_t>(task)];
        if (thread < 0 || thread >= num_threads) ++wrong_threads;
      });
      for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
      EXPECT_EQ(wrong_threads, 0);
    }
  }
}

TEST(ThreadPool, SurvivesTenThousandDispatches) {
  ThreadPool pool(3);
  int64_t wanted = 0;
  std::atomic<int64_t> sum{0};
  for (int64_t round = 0; round < 10000; ++round) {
    const int64_t num_tasks = 2 + round % 5;
    pool.parallel_for(num_tasks, [&](int64_t task, int) { sum += round + task; });
    wanted += num_tasks * round + num_tasks * (num_tasks - 1) / 2;
    ASSERT_EQ(sum, wanted) << "round " << round;  // all tasks ended before parallel_for did
  }
}

TEST(ThreadPool, WakesWorkersThatParked) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // they spin for 20
    std::atomic<int> ready{0};
    // Both threads must be in it at the same time, or this never ends.
    pool.parallel_for(2, [&](int64_t, int) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    });
    EXPECT_EQ(ready, 2);
  }
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  for (int num_threads = 1; num_threads <= 4; ++num_threads) {
    ThreadPool pool(num_threads);
    const auto broken = [](int64_t task, int) {
      if (task == 5) throw std::runtime_error("five");
    };
    EXPECT_THROW(pool.parallel_for(8, broken), std::runtime_error);
    std::atomic<int> runs{0};
    pool.parallel_for(8, [&](int64_t, int) { ++runs; });
    EXPECT_EQ(runs, 8);
  }
}

// Lists so short that workers come late to most of them, or draw from the next.
TEST(ThreadPool, EveryTaskOfEveryListRunsOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> runs(64);
    for (int64_t list = 0; list < 20'000; ++list) {
      const int64_t num_tasks = 1 + list % 5;
      const int64_t first = list % 7;
      pool.parallel_for(num_tasks, [&](int64_t task, int thread) {
        if (thread < 0 || thread >= threads) throw std::logic_error("no such thread");
        runs[static_cast<size_t>(first + task)].fetch_add(1, std::memory_order_relaxed);
      });
      for (int64_t task = 0; task < num_tasks; ++task) {
        ASSERT_EQ(runs[static_cast<size_t>(first + task)].exchange(0), 1)
            << "list " << list << ", task " << task << ", " << threads << " threads";
      }
    }
    for (const auto& left : runs) ASSERT_EQ(left.load(), 0);
  }
}

TEST(ThreadPool, TheFirstExceptionComesOutAndTheNextListIsWhole) {
  ThreadPool pool(3);
  for (int i = 0; i < 2'000; ++i) {
    std::atomic<int> ran{0};
    EXPECT_THROW(pool.parallel_for(20,
                                   [&](int64_t task, int) {
                                     ++ran;
                                     if (task == 3) throw std::runtime_error("task 3");
                                   }),
                 std::runtime_error);
    EXPECT_GE(ran.load(), 1);
    std::atomic<int> whole{0};
    pool.parallel_for(20, [&](int64_t, int) { ++whole; });
    ASSERT_EQ(whole.load(), 20);
  }
}

TEST(ThreadPool, RefusesImpossibleCounts) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1 << 20), Error);
}

}  // namespace
}  // namespace kvern
