#include "compile/proof_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compile/tune/candidates.h"
#include "tensor/quant_format.h"

namespace kvern::compile {
namespace {

// "linear bf16.pairs.f32": families whose preferred kernels round what they read.
std::set<std::string> rounding_kernels(const plan::Program& program, const char* prefix) {
  std::set<std::string> out;
  for (const plan::Instruction& instruction : program.instructions) {
    for (const tune::CandidateNote& note : tune::candidates(instruction)) {
      if (note.name != instruction.tactic || !note.numerics.starts_with(prefix)) continue;
      out.insert(instruction.family + " " + note.numerics);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> not_compared(const plan::Program& program,
                                      const std::vector<quantize::WeightNote>& weights,
                                      DType kv_storage) {
  std::vector<std::string> out;
  const auto rounded = std::count_if(weights.begin(), weights.end(),
                                     [](const quantize::WeightNote& note) { return !note.exact; });
  if (rounded > 0) {
    out.push_back(
        fmt::format("{} of {} weights, which the plan stores rounded", rounded, weights.size()));
  }
  if (kv_storage != DType::kF32) {
    out.push_back(fmt::format("K and V, which the plan keeps as {}", dtype_name(kv_storage)));
  }
  for (const auto& [prefix, type] : {std::pair("bf16.", "bf16"), std::pair("i8.", "int8")}) {
    const std::set<std::string> kernels = rounding_kernels(program, prefix);
    if (kernels.empty()) continue;
    out.push_back(fmt::format("kernels that round what they read to {} ({})", type,
                              fmt::join(kernels, ", ")));
  }
  return out;
}

}  // namespace kvern::compile
