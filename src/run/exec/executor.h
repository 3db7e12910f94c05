// Runs one StepBatch at a time. One implementation over a plan and a Device (plan_executor.h), one
// fake for tests of the scheduler and the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "run/kv/page_pool.h"
#include "run/step/step.h"

namespace kvern::exec {

// Tokens [begin, end) of a page.
struct PageTokens {
  int32_t begin = 0, end = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // `lease` holds the page tables of every sequence of the batch, this step's pages included.
  // Throws InternalError or DeviceError; what the step wrote into new pages is then worthless.
  virtual step::StepResult run(const step::StepBatch& batch, const kv::Lease& lease) = 0;

  // Between steps: a page's K and V as the plan's KvLayout lays them, for saved contexts. The span
  // has page_bytes(kv_group) bytes. Of a page that goes out only `tokens` do: all else is 0, since
  // it may be another request's.
  virtual int64_t page_bytes(size_t kv_group) const = 0;
  virtual void export_page(size_t kv_group, kv::PageId page, PageTokens tokens,
                           std::span<std::byte> to) = 0;
  virtual void import_page(size_t kv_group, kv::PageId page, std::span<const std::byte> from) = 0;
};

}  // namespace kvern::exec
