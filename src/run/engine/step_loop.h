// One engine's steps: the transaction between scheduler, pages and executor, and what becomes of a
// step that fails. Used by one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "run/exec/executor.h"
#include "run/kv/page_pool.h"
#include "run/sched/scheduler.h"

namespace kvern::engine {

enum class StepOutcome : uint8_t { kIdle, kRan, kFailed };

struct StepCounters {
  int64_t steps = 0;
  int64_t prefill_tokens = 0, decode_tokens = 0;
  double prefill_ms = 0, decode_ms = 0;
};

class StepLoop {
 public:
  StepLoop(std::unique_ptr<exec::Executor> executor, std::vector<kv::GroupConfig> kv_groups,
           sched::SchedulerOptions options);

  // The next step. One that throws fails its own requests; a broken device or broken page accounts
  // turn the loop unhealthy, and then every request fails. Throws only where memory is too short to
  // say so.
  StepOutcome run_step();
  // Unhealthy from now on, for a reason found outside.
  void fail(const std::string& message, Code code);

  sched::Scheduler& scheduler() { return scheduler_; }
  const sched::Scheduler& scheduler() const { return scheduler_; }
  kv::PagePool& pages() { return pages_; }
  const kv::PagePool& pages() const { return pages_; }
  exec::Executor& executor() { return *executor_; }
  const exec::Executor& executor() const { return *executor_; }
  const StepCounters& counters() const { return counters_; }
  bool healthy() const { return healthy_; }
  const std::string& fault() const { return fault_; }
  Code fault_code() const { return fault_code_; }

 private:
  StepOutcome step();
  void count(double ms);
  void check_pages(StepOutcome outcome);
  void abandon(const std::string& message, Code code);

  std::unique_ptr<exec::Executor> executor_;
  kv::PagePool pages_;
  sched::Scheduler scheduler_;
  step::StepBatch batch_;   // of the step that runs
  bool committed_ = false;  // its pages are the sequences'
  StepCounters counters_;
  bool busy_ = false;  // the last step was one
  bool healthy_ = true;
  std::string fault_;
  Code fault_code_ = Code::kInternal;
};

}  // namespace kvern::engine
