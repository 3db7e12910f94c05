// Which ids of a row top_k, min_p and top_p leave.
#pragma once

#include "kernels/cpu/sample/candidates.h"

namespace kvern::kernels::cpu {

struct Cuts {
  int32_t top_k = 0;   // 0: all
  float top_p = 1.0f;  // of what top_k and min_p leave
  float min_p = 0.0f;  // of the largest weight
};

enum class Kept { kAll, kCandidates };  // kCandidates: scratch.kept, never empty

// row.max is finite. No row is sorted: thresholds come from the lanes' maxima, and what they leave
// is partitioned.
Kept cut(const Row& row, const Cuts& cuts, const RowOps& ops, RowScratch& scratch);

}  // namespace kvern::kernels::cpu
