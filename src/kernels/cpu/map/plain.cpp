#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/map/impls.h"

namespace kvern::kernels::cpu {
namespace {

template <MapOp kOp>
void loop(const float* a, const float* b, const float* c, float* y, int64_t n) {
  const int arity = map_arity(kOp);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = map_value(kOp, a[i], arity > 1 ? b[i] : 0.0f, arity > 2 ? c[i] : 0.0f);
  }
}

// Squares and cubes, as exports write them.
template <>
void loop<MapOp::kPow>(const float* a, const float* b, const float*, float* y, int64_t n) {
  const float power = b[0];
  const bool whole = power == 2.0f || power == 3.0f;
  if (whole && std::all_of(b, b + n, [power](float other) { return other == power; })) {
    for (int64_t i = 0; i < n; ++i) y[i] = power == 2.0f ? a[i] * a[i] : a[i] * a[i] * a[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = std::pow(a[i], b[i]);
}

template <size_t... kOps>
constexpr MapLoops all_loops(std::index_sequence<kOps...>) {
  return {loop<static_cast<MapOp>(kOps)>...};
}

}  // namespace

const MapLoops& plain_map_loops() {
  static constexpr MapLoops kLoops = all_loops(std::make_index_sequence<kNumMapOps>());
  return kLoops;
}

}  // namespace kvern::kernels::cpu
