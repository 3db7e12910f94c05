// The ops of a map in vectors of 16.
#include <utility>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/map/impls.h"

namespace kvern::kernels::cpu {
namespace {

// The series near 0, where 1 - erfc(|x|) would lose digits, and that elsewhere.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 erf_f32(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 size = _mm512_abs_ps(x);
  const __m512 square = _mm512_mul_ps(x, x);
  __m512 near = _mm512_set1_ps(kErfSeries[0]);
  for (int i = 1; i < 7; ++i) near = _mm512_fmadd_ps(near, square, _mm512_set1_ps(kErfSeries[i]));
  const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(half, size, one));
  __m512 fit = _mm512_set1_ps(kErfcFit[0]);
  for (int i = 1; i < 10; ++i) fit = _mm512_fmadd_ps(fit, t, _mm512_set1_ps(kErfcFit[i]));
  const __m512 e = exp_f32(_mm512_fnmadd_ps(size, size, fit));
  const __m512 far = _mm512_fnmadd_ps(t, e, one);
  const __m512 signed_far = _mm512_or_ps(far, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
  const __mmask16 small = _mm512_cmp_ps_mask(size, half, _CMP_LT_OQ);
  return _mm512_mask_blend_ps(small, signed_far, _mm512_mul_ps(x, near));
}

template <MapOp kOp>
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 apply(__m512 a, __m512 b,
                                                                            __m512 c) {
  [[maybe_unused]] const __m512 one = _mm512_set1_ps(1.0f);
  // The second operand of max and min wins when one is NaN.
  if constexpr (kOp == MapOp::kAdd) return _mm512_add_ps(a, b);
  if constexpr (kOp == MapOp::kSub) return _mm512_sub_ps(a, b);
  if constexpr (kOp == MapOp::kMul) return _mm512_mul_ps(a, b);
  if constexpr (kOp == MapOp::kDiv) return _mm512_div_ps(a, b);
  if constexpr (kOp == MapOp::kMax) return _mm512_max_ps(b, a);
  if constexpr (kOp == MapOp::kMin) return _mm512_min_ps(b, a);
  if constexpr (kOp == MapOp::kLess)
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), one);
  if constexpr (kOp == MapOp::kEqual)
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), one);
  if constexpr (kOp == MapOp::kNeg) return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
  if constexpr (kOp == MapOp::kAbs) return _mm512_abs_ps(a);
  if constexpr (kOp == MapOp::kSqrt) return _mm512_sqrt_ps(a);
  if constexpr (kOp == MapOp::kRsqrt) return _mm512_div_ps(one, _mm512_sqrt_ps(a));
  if constexpr (kOp == MapOp::kRecip) return _mm512_div_ps(one, a);
  if constexpr (kOp == MapOp::kExp) return exp_f32(a);
  if constexpr (kOp == MapOp::kErf) return erf_f32(a);
  if constexpr (kOp == MapOp::kTanh) return tanh_f32(a);
  if constexpr (kOp == MapOp::kSigmoid)
    return _mm512_div_ps(one, _mm512_add_ps(one, exp_f32(_mm512_sub_ps(_mm512_setzero_ps(), a))));
  if constexpr (kOp == MapOp::kRound)
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kFloor)
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kCeil)
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  if constexpr (kOp == MapOp::kWhere)
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ), c, b);
  return a;
}

// How many of a, b and c an op reads.
constexpr int reads(MapOp op) {
  if (op == MapOp::kWhere) return 3;
  return op >= MapOp::kAdd && op <= MapOp::kEqual ? 2 : 1;
}

template <MapOp kOp>
[[gnu::target("avx512f,avx512dq")]] void loop(const float* a, const float* b, const float* c,
                                              float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = first_lanes(n - i);
    const __m512 va = _mm512_maskz_loadu_ps(mask, a + i);
    __m512 vb = va;
    __m512 vc = va;
    if constexpr (reads(kOp) > 1) vb = _mm512_maskz_loadu_ps(mask, b + i);
    if constexpr (reads(kOp) > 2) vc = _mm512_maskz_loadu_ps(mask, c + i);
    _mm512_mask_storeu_ps(y + i, mask, apply<kOp>(va, vb, vc));
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

const MapLoops& avx512_map_loops() {
  static const MapLoops kLoops = all_loops(std::make_index_sequence<kNumMapOps>());
  return kLoops;
}

}  // namespace kvern::kernels::cpu
