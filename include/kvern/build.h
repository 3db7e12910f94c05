// A model becomes a plan: `Builder` compiles, `verify_plan` proves a plan's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern {

struct BuildOptions {
  WeightFormat weights = WeightFormat::kKeep;
  KvCacheFormat kv = KvCacheFormat::kBf16;
  Activations activations = Activations::kDefault;
  int64_t max_context_length = 0;  // tokens of prompt and answer; 0: what the model was trained for
  int32_t max_sequences = 16;      // that run together
  int32_t max_tokens_per_step = 512;  // computed by one step, all sequences together
  int32_t page_tokens = 32;           // tokens of a KV page
  ProgressFn progress;                // may be empty
};

struct BuildResult {
  std::string plan_path;
  uint64_t plan_bytes = 0;
  double seconds = 0;
  std::string report_json;  // per tensor, weight and pass; also kept in the plan
  std::vector<std::string> warnings;
};

// Compiles one model file (GGUF v2 or v3 today). Stateless between calls; one call at a time per
// object.
class Builder {
 public:
  // Throws Error(kInvalidArgument) for options out of range.
  explicit Builder(BuildOptions options = {});

  // Reads `model_path`, writes `plan_path` through a temporary file beside it: a build that fails
  // or is killed leaves an older plan as it was. The same model and options give the same bytes.
  // Throws Error(kNotFound | kIo | kInvalidModel | kUnsupported | kInvalidArgument).
  BuildResult build(const std::string& model_path, const std::string& plan_path) const;

  // 16 hex digits that change with the model's content and with every option that changes the plan:
  // the name of a cached build. Reads the whole model once. Throws as build().
  std::string key(const std::string& model_path) const;

 private:
  BuildOptions options_;
};

// Reads the whole plan and compares every sum. Throws Error(kInvalidPlan) naming what is damaged,
// Error(kNotFound | kIo | kUnsupported) as Plan::open.
void verify_plan(const std::string& plan_path, const ProgressFn& progress = {});

// True when the file begins like a plan. False for a file that is absent or unreadable.
bool is_plan(const std::string& path);

}  // namespace kvern
