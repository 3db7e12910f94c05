// Answers as JSON, for `run --json`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "kvern/generate.h"

namespace kvern::cli {

// What one context gave, with the log-probabilities that its events carried.
struct Collected {
  Answer answer;
  std::vector<TokenLogprobs> logprobs;         // by answer token, where asked for
  std::vector<TokenLogprobs> prompt_logprobs;  // of the prompt's tokens from the second on
};

nlohmann::ordered_json timings_json(const Timings& timings, double load_ms);
// text, ids, finish_reason and, where there are any, logprobs.
nlohmann::ordered_json choice_json(const Collected& collected);
nlohmann::ordered_json logprobs_json(const std::vector<TokenLogprobs>& logprobs);

}  // namespace kvern::cli
