#include "kernels/cpu/sample/candidates.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace kvern::kernels::cpu {
namespace {

void keep_down_to(const Candidate& last, std::vector<Candidate>& kept) {
  std::erase_if(kept, [&](const Candidate& c) { return likelier(last, c); });
}

}  // namespace

Row scan(const float* logits, int64_t count, const RowOps& ops, RowScratch& scratch) {
  const auto spans = static_cast<size_t>((count + kSpanIds - 1) / kSpanIds);
  scratch.maxima.resize(spans * static_cast<size_t>(kLanes));
  scratch.masses.resize(spans);
  Row row{logits, count, 0.0f, 1.0f, scratch.maxima};
  row.max = ops.maxima(logits, count, scratch.maxima.data());
  return row;
}

float reached_by(const Row& row, int64_t k, RowScratch& scratch) {
  if (k < 1 || k > static_cast<int64_t>(row.maxima.size())) {
    return -std::numeric_limits<float>::infinity();
  }
  scratch.most.assign(row.maxima.begin(), row.maxima.end());
  const auto kth = scratch.most.begin() + (k - 1);
  std::nth_element(scratch.most.begin(), kth, scratch.most.end(), std::greater<>());
  return *kth;
}

// Only lanes whose largest logit is among them are read: for a few hundred ids that is a few
// hundred times 64 of a row's 49,152.
void collect(const Row& row, float least, const RowOps& ops, RowScratch& scratch) {
  scratch.kept.clear();
  scratch.logits.clear();
  for (int64_t begin = 0; begin < row.count; begin += kSpanIds) {
    const int64_t end = std::min(row.count, begin + kSpanIds);
    const float* maxima = row.maxima.data() + begin / kSpanIds * kLanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      if (!(maxima[lane] >= least)) continue;
      for (int64_t i = begin + lane; i < end; i += kLanes) {
        const float logit = row.logits[i];
        if (!(logit >= least)) continue;
        scratch.kept.push_back({logit, 0.0f, static_cast<int32_t>(i)});
        scratch.logits.push_back(logit);
      }
    }
  }
  scratch.weights.resize(scratch.logits.size());
  ops.weights(scratch.logits.data(), static_cast<int64_t>(scratch.logits.size()), row.max,
              row.scale, scratch.weights.data());
  for (size_t i = 0; i < scratch.kept.size(); ++i) scratch.kept[i].weight = scratch.weights[i];
}

void keep_likeliest(int64_t k, RowScratch& scratch) {
  if (k >= static_cast<int64_t>(scratch.kept.size())) return;
  scratch.order = scratch.kept;
  const auto last = scratch.order.begin() + (k - 1);
  std::nth_element(scratch.order.begin(), last, scratch.order.end(), likelier);
  keep_down_to(*last, scratch.kept);
}

double mass_of(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

// Halves [low, high), which holds the last one to be kept; before it lies what is kept in any case.
// Sums are exact, so that neither this order nor the partitions' can be seen in the result.
void keep_mass(double wanted, RowScratch& scratch) {
  std::vector<Candidate>& order = scratch.order;
  order = scratch.kept;
  size_t low = 0, high = order.size();
  if (high == 0) return;
  double before = 0;
  const auto at = [&](size_t i) { return order.begin() + static_cast<ptrdiff_t>(i); };
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(at(low), at(middle), at(high), likelier);
    const double mass = mass_of(std::span(order).subspan(low, middle - low));
    if (before + mass >= wanted) {
      high = middle;
    } else {
      before += mass;
      low = middle;
    }
  }
  keep_down_to(order[low], scratch.kept);
}

}  // namespace kvern::kernels::cpu
