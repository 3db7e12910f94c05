// Runs one StepBatch at a time. One implementation over a plan and a Device (plan_executor.h), one
// fake for tests of the scheduler and the engine.
#pragma once

#include <cstdint>

#include "run/kv/page_pool.h"
#include "run/step/step.h"

namespace kvern::exec {

class Executor {
 public:
  virtual ~Executor() = default;
  // `lease` holds the page tables of every sequence of the batch, this step's pages included.
  // Throws InternalError or DeviceError; what the step wrote into new pages is then worthless.
  virtual step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) = 0;
};

}  // namespace kvern::exec
