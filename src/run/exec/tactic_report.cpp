#include "run/exec/tactic_report.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace kvern::exec {
namespace {

std::string reason_against(const plan::Instruction& instruction) {
  const kernels::Family* family = kernels::find_family(instruction.family);
  for (const kernels::Candidate& candidate : family->candidates(instruction.desc)) {
    if (candidate.name != instruction.tactic) continue;
    return candidate.verdict.supported ? "not asked for" : candidate.verdict.reason;
  }
  return "this Kvern does not have it";
}

}  // namespace

std::string better_than(const plan::Instruction& instruction, std::string_view taken) {
  const kernels::Family* family = kernels::find_family(instruction.family);
  std::string out;
  for (const kernels::Candidate& candidate : family->candidates(instruction.desc)) {
    if (candidate.name == taken) break;
    const std::string reason = candidate.verdict.supported
                                   ? "the plan asks for another, or the plain ones were asked for"
                                   : candidate.verdict.reason;
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", candidate.name, reason);
  }
  return out;
}

std::string other_tactics(const plan::Plan& plan,
                          const std::vector<std::unique_ptr<kernels::PreparedOp>>& ops) {
  std::map<std::tuple<std::string, std::string, std::string>, int> counts;  // wanted, taken, why
  int sum = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const plan::Instruction& instruction = plan.program.instructions[i];
    if (instruction.tactic.empty() || instruction.tactic == ops[i]->implementation()) continue;
    ++counts[{instruction.tactic, ops[i]->implementation(), reason_against(instruction)}];
    ++sum;
  }
  if (sum == 0) return {};
  std::string list;
  for (const auto& [key, count] : counts) {
    const auto& [wanted, taken, reason] = key;
    list +=
        fmt::format("{}{} x {} -> {} ({})", list.empty() ? "" : "; ", count, wanted, taken, reason);
  }
  return fmt::format(
      "plan: {} of {} instructions run on other implementations than the plan prefers: {}. The "
      "answers are right, but slower and perhaps rounded otherwise; `kvern retune`, which will "
      "choose anew for this machine, is not supported yet",
      sum, ops.size(), list);
}

}  // namespace kvern::exec
