// The batch that Scheduler::next puts together, and what is left for it.
#pragma once

#include <vector>

#include "run/kv/page_budget.h"
#include "run/sched/scheduler.h"

namespace kvern::sched {

struct Scheduler::Step {
  explicit Step(const kv::PagePool& pool) : budget(pool) {}

  step::StepBatch batch;
  kv::PageBudget budget;
  int32_t tokens_left = 0;
  int32_t prefill_left = 0;
  int32_t rows_left = 0;

  const kv::PageTable& table(const Sequence& sequence) const {
    return budget.table(sequence.request.id);
  }
};

}  // namespace kvern::sched
