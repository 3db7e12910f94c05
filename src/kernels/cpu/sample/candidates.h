// The ids of a row that a cut may keep. Their order is the row's own (by span, lane, id), whatever
// threshold found them, so that a draw depends on the kept set alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/sample/row_scan.h"

namespace kvern::kernels::cpu {

struct Candidate {
  float logit = 0.0f;
  float weight = 0.0f;  // exp((logit - max) * scale)
  int32_t id = 0;
};

// A strict order: of equal logits the lower id.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

struct Row {
  const float* logits = nullptr;
  int64_t count = 0;
  float max = 0.0f;
  float scale = 1.0f;             // of weights
  std::span<const float> maxima;  // RowOps::maxima
};

// Kept between rows.
struct RowScratch {
  std::vector<float> maxima, most, logits, weights;
  std::vector<double> masses;
  std::vector<Candidate> kept, order;
  std::vector<float> unchanged;
};

// The row with its maxima, which lie in `scratch`; its max is not finite when no logit is.
Row scan(const float* logits, int64_t count, const RowOps& ops, RowScratch& scratch);
// A logit that at least `k` ids reach, close to that of the k-th likeliest: the k-th largest of the
// lanes' maxima. -infinity when there are fewer lanes.
float reached_by(const Row& row, int64_t k, RowScratch& scratch);
// Every id whose logit is at least `least`, into scratch.kept.
void collect(const Row& row, float least, const RowOps& ops, RowScratch& scratch);
// Of scratch.kept stay the k likeliest; the smallest number of likeliest whose weights reach
// `wanted`, at least one.
void keep_likeliest(int64_t k, RowScratch& scratch);
void keep_mass(const Row& row, double wanted, RowScratch& scratch);
double mass_of(std::span<const Candidate> candidates);

}  // namespace kvern::kernels::cpu
