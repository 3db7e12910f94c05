#include "run/engine/step_loop.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "kvern/error.h"

namespace kvern::engine {

StepLoop::StepLoop(std::unique_ptr<exec::Executor> executor, std::vector<kv::GroupConfig> kv_groups,
                   sched::SchedulerOptions options)
    : executor_(std::move(executor)),
      pages_(std::move(kv_groups)),
      scheduler_(std::move(options)) {}

StepOutcome StepLoop::step() {
  batch_ = scheduler_.next(pages_);  // admits, chunks, preempts; moves no page
  if (batch_.empty()) return StepOutcome::kIdle;
  auto lease = pages_.exchange(batch_.releases(), batch_.needs());  // all or nothing
  batch_.page_copies = lease.page_copies();
  const step::StepResult result = executor_->run(batch_, lease);  // a throw returns the pages
  lease.commit();
  committed_ = true;
  for (const step::SequenceInput& part : batch_.sequences) {
    if (part.cache) pages_.note_computed(part.seq, part.start, part.ids);
  }
  scheduler_.apply(batch_, result);
  return StepOutcome::kRan;
}

StepOutcome StepLoop::run_step() {
  if (!healthy()) return StepOutcome::kIdle;
  const auto begin = std::chrono::steady_clock::now();
  batch_ = {};
  committed_ = false;
  try {
    const StepOutcome outcome = step();
    if (outcome == StepOutcome::kRan) {
      count(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                .count());
    }
    check_pages(outcome);
    return outcome;
  } catch (const DeviceError& error) {
    fail(error.what(), error.code());
  } catch (const Error& error) {
    abandon(error.what(), error.code());
  } catch (const std::exception& error) {
    abandon(error.what(), Code::kInternal);
  } catch (...) {
    abandon("unknown exception", Code::kInternal);
  }
  busy_ = true;
  return StepOutcome::kFailed;
}

// After every step in debug builds; otherwise when the last one is over.
void StepLoop::check_pages(StepOutcome outcome) {
  const bool was_busy = std::exchange(busy_, outcome != StepOutcome::kIdle);
#ifdef NDEBUG
  if (busy_ || !was_busy) return;
#else
  if (!busy_ && !was_busy) return;
#endif
  pages_.check_invariant();
}

// Prompt chunks and single tokens share steps: such a step counts as prefill.
void StepLoop::count(double ms) {
  if (batch_.sequences.empty()) return;
  bool decode = true;
  for (const step::SequenceInput& part : batch_.sequences) {
    decode &= part.count == 1 && part.start > 0;
  }
  ++counters_.steps;
  (decode ? counters_.decode_tokens : counters_.prefill_tokens) += batch_.num_tokens();
  (decode ? counters_.decode_ms : counters_.prefill_ms) += ms;
}

void StepLoop::abandon(const std::string& message, Code code) {
  log::error("engine: a step failed: {}", message);
  // Once its pages are the sequences' own there is nothing to take back; and a step that only gives
  // pages back would fail again for ever.
  if (committed_ || batch_.sequences.empty()) return fail(message, code);
  try {
    scheduler_.abandon(batch_, message, code);
    pages_.check_invariant();
  } catch (const std::exception& error) {
    fail(error.what(), Code::kInternal);
  }
}

void StepLoop::fail(const std::string& message, Code code) {
  healthy_ = false;
  fault_code_ = code;
  fault_ = message.empty() ? "unknown fault" : message;
  log::error("engine: unhealthy from now on: {}", fault_);
  scheduler_.finish_all(sched::FinishReason::kFailed, fault_, fault_code_);
}

}  // namespace kvern::engine
