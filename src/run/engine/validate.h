// What submit() refuses, in the caller's thread.
#pragma once

#include "run/engine/engine.h"
#include "run/sched/request.h"

namespace kvern::engine {

struct RequestLimits {
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;
  int64_t kv_capacity_tokens = 0;  // of one sequence that runs alone
  bool has_tokenizer = false;
};

// Throws Error(kInvalidRequest | kUnsupported).
void validate(const RequestSpec& spec, const RequestLimits& limits);

// The scheduler's form of a validated request, its id not set yet.
sched::Request to_request(RequestSpec spec, const RequestLimits& limits,
                          const std::vector<int32_t>& model_stop_ids);

}  // namespace kvern::engine
