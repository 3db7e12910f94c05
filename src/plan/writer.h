// Writes a plan file atomically. The weights are produced one at a time, in the order of
// plan.weights.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "plan/plan.h"

namespace kvern::plan {

struct WriteHooks {
  // Fills `to` (the weight's size_bytes) with the packed data of plan.weights[index].
  std::function<void(size_t index, std::span<std::byte> to)> weight;
  // May be empty; called after each weight.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
  // May be empty. Called once all weights were asked for: the import report with what was learnt on
  // the way. As long as plan.import_report, whose place it takes.
  std::function<std::string()> final_report;
  // May be empty. Looks at the complete file under its temporary name; a throw leaves an older plan
  // as it was.
  std::function<void(const std::string& temporary_path)> check;
};

// Sets the weights' offsets, writes everything, syncs, renames. The same plan and weights give the
// same bytes. Throws Error(kIo) and leaves an older file at `path` as it was.
void write_plan(const std::string& path, Plan& plan, const WriteHooks& hooks);

}  // namespace kvern::plan
