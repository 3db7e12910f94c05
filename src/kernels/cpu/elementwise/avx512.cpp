#include <array>
#include <utility>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

// x / (1 + exp(minus_z)): x * sigmoid(z).
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 gate(__m512 x, __m512 minus_z) {
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_f32(minus_z)));
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 silu(__m512 x) {
  return gate(x, _mm512_sub_ps(_mm512_setzero_ps(), x));
}

// x * sigmoid(2 u), as in plain.cpp.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 gelu_tanh(__m512 x) {
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const __m512 inner = _mm512_fmadd_ps(_mm512_set1_ps(0.044715f), cube, x);
  return gate(x, _mm512_mul_ps(_mm512_set1_ps(-1.5957691216f), inner));
}

// x times the normal distribution up to x: erfc(|x| / sqrt(2)) / 2 below 0, 1 less that above.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 gelu_erf(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678118f));
  const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(half, z, one));
  __m512 p = _mm512_set1_ps(kErfcFit[0]);
  for (int i = 1; i < 10; ++i) p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(kErfcFit[i]));
  const __m512 e = exp_f32(_mm512_fnmadd_ps(z, z, p));
  const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(half, t), e);
  const __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  return _mm512_mul_ps(x, _mm512_mask_blend_ps(below, _mm512_sub_ps(one, tail), tail));
}

template <ElementwiseOp kOp>
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 apply(__m512 a, __m512 b,
                                                                            __m512 f) {
  if constexpr (kOp == ElementwiseOp::kGeluTanh) return gelu_tanh(a);
  if constexpr (kOp == ElementwiseOp::kGeluTanhMul) return _mm512_mul_ps(gelu_tanh(a), b);
  if constexpr (kOp == ElementwiseOp::kGeluErf) return gelu_erf(a);
  if constexpr (kOp == ElementwiseOp::kGeluErfMul) return _mm512_mul_ps(gelu_erf(a), b);
  if constexpr (kOp == ElementwiseOp::kScale) return _mm512_mul_ps(a, f);
  if constexpr (kOp == ElementwiseOp::kSoftcap)
    return _mm512_mul_ps(f, tanh_f32(_mm512_div_ps(a, f)));
  if constexpr (kOp == ElementwiseOp::kAdd) return _mm512_add_ps(a, b);
  if constexpr (kOp == ElementwiseOp::kMul) return _mm512_mul_ps(a, b);
  if constexpr (kOp == ElementwiseOp::kSilu) return silu(a);
  if constexpr (kOp == ElementwiseOp::kSiluMul) return _mm512_mul_ps(silu(a), b);
  // The second operand of max wins when one is NaN.
  if constexpr (kOp == ElementwiseOp::kRelu) return _mm512_max_ps(_mm512_setzero_ps(), a);
  if constexpr (kOp == ElementwiseOp::kQuickGelu)
    return gate(a, _mm512_mul_ps(_mm512_set1_ps(-1.702f), a));
  if constexpr (kOp == ElementwiseOp::kTanh) return tanh_f32(a);
  if constexpr (kOp == ElementwiseOp::kSigmoid)
    return gate(_mm512_set1_ps(1.0f), _mm512_sub_ps(_mm512_setzero_ps(), a));
}

template <ElementwiseOp kOp>
[[gnu::target("avx512f,avx512dq")]] void run_row(const float* a, const float* b, float* y,
                                                 int64_t dim, float factor) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < dim; i += 16) {
    const __mmask16 mask = first_lanes(dim - i);
    const __m512 va = _mm512_maskz_loadu_ps(mask, a + i);
    __m512 vb = va;
    if constexpr (takes_two(kOp)) vb = _mm512_maskz_loadu_ps(mask, b + i);
    _mm512_mask_storeu_ps(y + i, mask, apply<kOp>(va, vb, f));
  }
}

using RunRow = void (*)(const float* a, const float* b, float* y, int64_t dim, float factor);

template <size_t... kOps>
constexpr std::array<RunRow, sizeof...(kOps)> all_rows(std::index_sequence<kOps...>) {
  return {run_row<static_cast<ElementwiseOp>(kOps)>...};
}

// By ElementwiseOp.
constexpr auto kRunRow = all_rows(std::make_index_sequence<kNumElementwiseOps>());

}  // namespace

Verdict supports_elementwise_avx512(const ElementwiseDesc&) {
  return needs_avx512();
}

// Moves 8 to 12 * dim bytes per row; silu_mul does about 20 vector operations per 16 elements.
void elementwise_avx512(const ElementwiseDesc& desc, const ElementwiseArgs& args) {
  const RunRow run = kRunRow[static_cast<size_t>(desc.op)];
  for_rows(args.stream, args.rows, desc.dim / 2, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* b = args.b == nullptr ? nullptr : args.b + r * args.b_stride;
      run(args.a + r * args.a_stride, b, args.y + r * args.y_stride, desc.dim, desc.factor);
    }
  });
}

}  // namespace kvern::kernels::cpu
