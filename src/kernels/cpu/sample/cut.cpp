#include "kernels/cpu/sample/cut.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvern::kernels::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// What top_k and min_p keep. The threshold from min_p is a little low: weights decide.
void cut_by_count_and_ratio(const Row& row, const Cuts& cuts, const RowOps& ops,
                            RowScratch& scratch) {
  float least = kNone;
  if (cuts.min_p > 0.0f) {
    const double below = (0.01 - std::log(static_cast<double>(cuts.min_p))) / row.scale;
    least = static_cast<float>(row.max - below - std::abs(row.max) * 1e-6);
  }
  const bool by_count = cuts.top_k > 0 && cuts.top_k < row.count;
  if (by_count) least = std::max(least, reached_by(row, cuts.top_k, scratch));
  collect(row, least, ops, scratch);
  if (by_count) keep_likeliest(cuts.top_k, scratch);
  std::erase_if(scratch.kept, [&](const Candidate& c) { return c.weight < cuts.min_p; });
}

// The ids that reach top_p of the whole row lie above some distance from the largest logit: 3, 6,
// 12, 24 temperatures are tried, since near ones are few and cheap to gather.
void cut_by_mass(const Row& row, const Cuts& cuts, const RowOps& ops, RowScratch& scratch) {
  const double total = ops.masses(row.logits, row.count, row.max, row.scale, scratch.masses.data());
  const double wanted = cuts.top_p * total;
  for (float distance = 3.0f;; distance *= 2.0f) {
    const bool all = distance > 24.0f;  // what lies beyond weighs nothing
    collect(row, all ? kNone : row.max - distance / row.scale, ops, scratch);
    if (all || mass_of(scratch.kept) >= wanted) break;
  }
  keep_mass(row, wanted, scratch);
}

}  // namespace

Kept cut(const Row& row, const Cuts& cuts, const RowOps& ops, RowScratch& scratch) {
  const bool by_mass = cuts.top_p < 1.0f;
  if ((cuts.top_k > 0 && cuts.top_k < row.count) || cuts.min_p > 0.0f) {
    cut_by_count_and_ratio(row, cuts, ops, scratch);
    if (by_mass) keep_mass(row, cuts.top_p * mass_of(scratch.kept), scratch);
  } else if (by_mass) {
    cut_by_mass(row, cuts, ops, scratch);
  } else {
    return Kept::kAll;
  }
  return Kept::kCandidates;
}

}  // namespace kvern::kernels::cpu
