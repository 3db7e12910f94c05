// What work on a foreign graph may cost, and how it is told to stop. A graph of a few bytes can ask
// for any amount of both: a repeated product, a loop, a constant expanded a thousand times.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace kvern::ir {

struct WorkLimits {
  uint64_t max_bytes = 0;        // of Arrays made and alive; 0: as outside
  double max_multiply_adds = 0;  // of products; 0: as many as outside
  std::function<void()> stop;    // called now and then, throws where work should end; may be empty
};

// While one lives, it counts what its thread does; budgets nest. Thread-local, because an Array is
// made in some two hundred places, none of which would pass a budget on. Elements that outlive the
// budget give back to an account that does so too.
class WorkBudget {
 public:
  explicit WorkBudget(WorkLimits limits);
  ~WorkBudget();
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

 private:
  friend void spend_multiply_adds(double count);
  friend void check_stop();
  friend std::shared_ptr<std::byte[]> make_elements(uint64_t bytes, bool zeroed);

  struct Account {
    uint64_t max_bytes = 0;
    std::atomic<uint64_t> alive_bytes = 0;
  };

  WorkLimits limits_;
  WorkBudget* outer_;
  std::shared_ptr<Account> account_;  // of the nearest budget with a limit
  double multiply_adds_ = 0;
  std::chrono::steady_clock::time_point last_stop_check_;
};

// Before they are done. Throws Error(kUnsupported) above the limit of a budget around it.
void spend_multiply_adds(double count);
// Asks to stop, at most every 20 ms. Throws what `stop` throws.
void check_stop();
// Elements of an Array. Throws Error(kOutOfMemory) above the limit, before anything is allocated.
std::shared_ptr<std::byte[]> make_elements(uint64_t bytes, bool zeroed);

}  // namespace kvern::ir
