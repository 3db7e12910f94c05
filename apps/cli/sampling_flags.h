// The options of `run` and `chat` that say how an answer's tokens are chosen.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvern/engine.h"
#include "kvern/plan.h"

namespace kvern::cli {

struct SamplingFlags {
  // Absent: what the model's makers propose with `--sampling model`, else greedy.
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty,
      frequency_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::string preset = "greedy";        // or "model"
};

void add_sampling_flags(CLI::App& app, const std::shared_ptr<SamplingFlags>& flags);

// Throws Error(kInvalidArgument) for a bias that is none.
Sampling sampling_of(const SamplingFlags& flags, const Sampling& proposed);
// Options that change nothing because the temperature is 0 are named on standard error.
void warn_of_idle_options(const SamplingFlags& flags, const Sampling& sampling);

}  // namespace kvern::cli
