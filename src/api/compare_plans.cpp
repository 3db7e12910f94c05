#include <algorithm>
#include <memory>

#include "base/philox.h"
#include "kvern/build.h"
#include "measure/divergence.h"
#include "plan/reader.h"
#include "run/engine/engine.h"

namespace kvern {

PlanDivergence compare_plans(const std::string& reference_plan, const std::string& candidate_plan,
                             int64_t num_tokens) {
  if (num_tokens < 2) {
    throw Error(Code::kInvalidArgument, "compare_plans: at least two tokens are needed");
  }
  const auto reference_file = std::make_shared<const plan::PlanFile>(reference_plan);
  const auto candidate_file = std::make_shared<const plan::PlanFile>(candidate_plan);
  const plan::Plan& plan = reference_file->plan();
  const int64_t held =
      std::min(plan.profile.context_length.max, candidate_file->plan().profile.context_length.max);
  engine::EngineOptions options;
  options.max_sequences = 1;
  options.kv_capacity_tokens = held;
  engine::Engine reference(reference_file, options);
  engine::Engine candidate(candidate_file, options);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < std::min(num_tokens, held - 1); ++i) {
    const uint64_t drawn = philox64(0, static_cast<uint64_t>(i));
    ids.push_back(static_cast<int32_t>(drawn % static_cast<uint64_t>(plan.vocabulary_size)));
  }
  const measure::Divergence d = measure::divergence(reference, candidate, ids);
  return {d.positions, d.mean_kl, d.max_kl, d.top1_agreement};
}

}  // namespace kvern
