// Attention by AVX2, FMA and F16C: the arithmetic of the AVX-512 form in f32, in its order.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/kv_attention/avx2.h"
#include "kernels/cpu/kv_attention/impls.h"
#include "kernels/cpu/kv_attention/launch.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace avx2 {
namespace {

[[gnu::target("avx2,fma")]] float exp_one(float x) {
  return _mm256_cvtss_f32(exp_f32(_mm256_set1_ps(x)));
}

void stage_q(QkInput, const float* q, int64_t dim, float* to) {
  std::memcpy(to, q, static_cast<size_t>(dim) * sizeof(float));
}

[[gnu::target("avx2,fma")]] void cap_row(float* scores, int64_t first, int64_t end, float softcap) {
  const __m256 cap = _mm256_set1_ps(softcap);
  const __m256 inverse = _mm256_set1_ps(1.0f / softcap);
  for (int64_t i = first; i < end; i += kHalf) {
    const __m256 x = _mm256_mul_ps(_mm256_loadu_ps(scores + i), inverse);
    _mm256_storeu_ps(scores + i, _mm256_mul_ps(tanh_f32(x), cap));
  }
}

// Which of positions [i, i + 8) lie in [begin, end); of most vectors all do.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i seen_lanes(int64_t i, int64_t begin,
                                                                      int64_t end) {
  if (i >= begin && i + kHalf <= end) return _mm256_set1_epi32(-1);
  return lanes8(begin - i, end - i);
}

// The seen of scores[i, i + 8), minus infinity elsewhere.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 seen_scores(const float* scores,
                                                                      __m256i seen) {
  const __m256 lowest = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  return _mm256_blendv_ps(lowest, _mm256_loadu_ps(scores), _mm256_castsi256_ps(seen));
}

[[gnu::target("avx2,fma")]] void slope_row(float* scores, int64_t first, int64_t end,
                                           const RowScore& how) {
  const __m256 lanes = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 slope = _mm256_set1_ps(how.slope);
  for (int64_t i = first; i < end; i += kHalf) {
    const __m256 distance = _mm256_add_ps(lanes, _mm256_set1_ps(how.first + static_cast<float>(i)));
    _mm256_storeu_ps(scores + i, _mm256_fmadd_ps(slope, distance, _mm256_loadu_ps(scores + i)));
  }
}

[[gnu::target("avx2,fma")]] RowTotal softmax_row(float* scores, int64_t begin, int64_t end,
                                                 const RowScore& how) {
  const int64_t first = begin / kLanes * kLanes;
  if (how.softcap > 0.0f) cap_row(scores, first, end, how.softcap);
  if (how.slope != 0.0f) slope_row(scores, first, end, how);
  __m256 largest = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  for (int64_t i = first; i < end; i += kHalf) {
    largest = _mm256_max_ps(largest, seen_scores(scores + i, seen_lanes(i, begin, end)));
  }
  RowTotal total;
  total.max = largest_lane(largest);
  const __m256 max = _mm256_set1_ps(total.max);
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = first; i < end; i += kLanes) {
    for (int half = 0; half < 2; ++half) {
      const int64_t at = i + half * kHalf;
      const __m256i seen = seen_lanes(at, begin, end);
      const __m256 score = seen_scores(scores + at, seen);
      const __m256 weight =
          _mm256_and_ps(exp_f32(_mm256_sub_ps(score, max)), _mm256_castsi256_ps(seen));
      _mm256_storeu_ps(scores + at, weight);
      sum[half] = _mm256_add_ps(sum[half], weight);
    }
  }
  total.sum = fold_lanes(sum[0], sum[1]);
  return total;
}

[[gnu::target("avx2,fma")]] void combine_row(RowTotal& total, float* out, const RowTotal& part,
                                             const float* part_out, int64_t padded_dim) {
  if (part.sum == 0.0f) return;
  if (total.sum == 0.0f) {
    total = part;
    std::memcpy(out, part_out, static_cast<size_t>(padded_dim) * sizeof(float));
    return;
  }
  const float max = std::max(total.max, part.max);
  const float keep = exp_one(total.max - max);
  const float take = exp_one(part.max - max);
  const __m256 keep_lanes = _mm256_set1_ps(keep);
  const __m256 take_lanes = _mm256_set1_ps(take);
  for (int64_t i = 0; i < padded_dim; i += kHalf) {
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(out + i), keep_lanes);
    _mm256_storeu_ps(out + i, _mm256_fmadd_ps(_mm256_loadu_ps(part_out + i), take_lanes, kept));
  }
  total.sum = total.sum * keep + part.sum * take;
  total.max = max;
}

[[gnu::target("avx2")]] void finish_row(const RowTotal& total, const float* out, int64_t dim,
                                        float* y) {
  const __m256 sum = _mm256_set1_ps(total.sum);
  for (int64_t i = 0; i < dim; i += kHalf) {
    store_first(y + i, dim - i, _mm256_div_ps(_mm256_loadu_ps(out + i), sum));
  }
}

}  // namespace
}  // namespace avx2

const Isa& avx2_isa() {
  static constexpr Isa kIsa = {.stage_q = avx2::stage_q,
                               .stage_scales = avx2::stage_scales,
                               .stage_k = avx2::stage_k,
                               .stage_v = avx2::stage_v,
                               .qk_block = avx2::qk_block,
                               .softmax_row = avx2::softmax_row,
                               .pv_block = avx2::pv_block,
                               .pv_direct = avx2::pv_direct,
                               .combine_row = avx2::combine_row,
                               .finish_row = avx2::finish_row};
  return kIsa;
}

Verdict supports_kv_attention_avx2(const KvAttentionDesc& desc) {
  Verdict groups = supports_attention_groups(desc);
  return groups.supported ? needs_avx2() : groups;
}

void kv_attention_avx2(const KvAttentionDesc& desc, const KvAttentionArgs& args) {
  launch_attention(desc, args, avx2_isa(), QkInput::kF32);
}

}  // namespace kvern::kernels::cpu
