// Writes a plan file atomically. The weights are produced one at a time, in the order of
// plan.weights.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "plan/plan.h"

namespace kvern::plan {

// Fills `to` (the weight's size_bytes) with its packed data.
using WeightSource = std::function<void(size_t index, std::span<std::byte> to)>;
using Progress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Sets the weights' offsets, writes everything, syncs, renames. The same plan and weights give the
// same bytes. Throws Error(kIo) and leaves an older file at `path` as it was.
void write_plan(const std::string& path, Plan& plan, const WeightSource& weight_source,
                const Progress& progress);

}  // namespace kvern::plan
