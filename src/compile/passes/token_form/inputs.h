// What each input of an export is, and the worlds in which the graph is walked.
#pragma once

#include "compile/passes/token_form/walk.h"

namespace kvern::passes::token_form {

struct InputPlan {
  ir::TensorValueId ids = ir::kNoValue;
  int64_t batch = 0;           // 0: any
  int64_t capacity = 0;        // of a static cache
  bool free_capacity = false;  // a static cache of any size: its fill is an input of its own
  bool has_past = false;
  bool has_branch = false;  // use_cache_branch
  bool grows = false;       // a past of any length
  // For every input of the graph: "ids", "mask", "mask 4d", "positions", "past", "scalar".
  struct Line {
    ir::TensorValueId id;
    std::string role;
    std::string meaning;  // of scalars: "past", "total", "tokens", "branch", or a number
    std::vector<ir::TensorDim> dims;
    int64_t batch_axis = -1, length_axis = -1;
  };
  std::vector<Line> lines;
};

// Throws Error(kUnsupported) for an input whose meaning is unknown, and for a fixed length of ids.
InputPlan plan_inputs(const ir::TensorModel& model, const TokenFormOptions& options);

// Small worlds whose elements are followed, then a long one for masks and tables; `attempt` 0 takes
// the longest that the constants of the graph ask for, higher ones shorter.
std::vector<World> worlds_for(const InputPlan& plan, const ir::TensorModel& model,
                              const TokenFormOptions& options, int attempt);
// The last attempt has worlds of one new token: what an exporter traced so is right only so.
inline constexpr int kWorldAttempts = 4;

// The values of the graph's inputs in walk.worlds.
void bind_inputs(Walk& walk, const InputPlan& plan, std::vector<Value>& values);

}  // namespace kvern::passes::token_form
