// The ops of a map in vectors of 8.
#include <utility>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/map/impls.h"

namespace kvern::kernels::cpu {
namespace {

// The series near 0, where 1 - erfc(|x|) would lose digits, and that elsewhere.
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 erf_f32(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 half = _mm256_set1_ps(0.5f);
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  const __m256 square = _mm256_mul_ps(x, x);
  __m256 near = _mm256_set1_ps(kErfSeries[0]);
  for (int i = 1; i < 7; ++i) near = _mm256_fmadd_ps(near, square, _mm256_set1_ps(kErfSeries[i]));
  const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(half, size, one));
  __m256 fit = _mm256_set1_ps(kErfcFit[0]);
  for (int i = 1; i < 10; ++i) fit = _mm256_fmadd_ps(fit, t, _mm256_set1_ps(kErfcFit[i]));
  const __m256 e = exp_f32(_mm256_fnmadd_ps(size, size, fit));
  const __m256 far = _mm256_fnmadd_ps(t, e, one);
  const __m256 signed_far = _mm256_or_ps(far, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
  const __m256 small = _mm256_cmp_ps(size, half, _CMP_LT_OQ);
  return _mm256_blendv_ps(signed_far, _mm256_mul_ps(x, near), small);
}

template <MapOp kOp>
[[gnu::target("avx2,fma"), gnu::always_inline]] inline __m256 apply(__m256 a, __m256 b, __m256 c) {
  [[maybe_unused]] const __m256 one = _mm256_set1_ps(1.0f);
  // The second operand of max and min wins when one is NaN.
  if constexpr (kOp == MapOp::kAdd) return _mm256_add_ps(a, b);
  if constexpr (kOp == MapOp::kSub) return _mm256_sub_ps(a, b);
  if constexpr (kOp == MapOp::kMul) return _mm256_mul_ps(a, b);
  if constexpr (kOp == MapOp::kDiv) return _mm256_div_ps(a, b);
  if constexpr (kOp == MapOp::kMax) return _mm256_max_ps(b, a);
  if constexpr (kOp == MapOp::kMin) return _mm256_min_ps(b, a);
  if constexpr (kOp == MapOp::kLess) return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), one);
  if constexpr (kOp == MapOp::kEqual) return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ), one);
  if constexpr (kOp == MapOp::kNeg) return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
  if constexpr (kOp == MapOp::kAbs) return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
  if constexpr (kOp == MapOp::kSqrt) return _mm256_sqrt_ps(a);
  if constexpr (kOp == MapOp::kRsqrt) return _mm256_div_ps(one, _mm256_sqrt_ps(a));
  if constexpr (kOp == MapOp::kRecip) return _mm256_div_ps(one, a);
  if constexpr (kOp == MapOp::kExp) return exp_f32(a);
  if constexpr (kOp == MapOp::kErf) return erf_f32(a);
  if constexpr (kOp == MapOp::kTanh) return tanh_f32(a);
  if constexpr (kOp == MapOp::kSigmoid)
    return _mm256_div_ps(one, _mm256_add_ps(one, exp_f32(_mm256_sub_ps(_mm256_setzero_ps(), a))));
  if constexpr (kOp == MapOp::kRound)
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kFloor)
    return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kCeil)
    return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kWhere)
    return _mm256_blendv_ps(c, b, _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_NEQ_UQ));
  return a;
}

// How many of a, b and c an op reads.
constexpr int reads(MapOp op) {
  if (op == MapOp::kWhere) return 3;
  return op >= MapOp::kAdd && op <= MapOp::kEqual ? 2 : 1;
}

template <MapOp kOp>
[[gnu::target("avx2,fma")]] void loop(const float* a, const float* b, const float* c, float* y,
                                      int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const __m256 va = load_first(a + i, n - i);
    __m256 vb = va;
    __m256 vc = va;
    if constexpr (reads(kOp) > 1) vb = load_first(b + i, n - i);
    if constexpr (reads(kOp) > 2) vc = load_first(c + i, n - i);
    store_first(y + i, n - i, apply<kOp>(va, vb, vc));
  }
}

template <size_t... kOps>
MapLoops all_loops(std::index_sequence<kOps...>) {
  const auto pick = [](MapOp op, MapLoop vector) {
    return has_vector_form(op) ? vector : plain_map_loops()[static_cast<size_t>(op)];
  };
  return {pick(static_cast<MapOp>(kOps), loop<static_cast<MapOp>(kOps)>)...};
}

}  // namespace

const MapLoops& avx2_map_loops() {
  static const MapLoops kLoops = all_loops(std::make_index_sequence<kNumMapOps>());
  return kLoops;
}

}  // namespace kvern::kernels::cpu
