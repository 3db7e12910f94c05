// Attention by AVX-512: rows between the products, and what is supported. AVX512-BF16 takes K of
// two or one bytes as bf16; everything else, and every K without it, goes by FMA in f32.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/avx512_math.h"
#include "kernels/cpu/kv_attention/avx512.h"
#include "kernels/cpu/kv_attention/impls.h"
#include "kernels/cpu/kv_attention/launch.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace avx512 {
namespace {

// exp of one value by the vector form, so that a row has one exp throughout.
[[gnu::target("avx512f")]] float exp_one(float x) {
  return _mm512_cvtss_f32(exp_f32(_mm512_set1_ps(x)));
}

// Which of positions [i, i + 16) lie in [begin, end); of most vectors all do.
inline __mmask16 seen_lanes(int64_t i, int64_t begin, int64_t end) {
  if (i >= begin && i + kLanes <= end) return 0xffff;
  return first_lanes(end - i) & static_cast<__mmask16>(~first_lanes(begin - i));
}

[[gnu::target("avx512f,avx512bw,avx512vl")]] void stage_q(QkInput input, const float* q,
                                                          int64_t dim, float* to) {
  if (input == QkInput::kF32) {
    std::memcpy(to, q, static_cast<size_t>(dim) * sizeof(float));
    return;
  }
  auto* pairs = reinterpret_cast<std::byte*>(to);
  if (dim % 2 != 0) std::memset(to + dim / 2, 0, sizeof(float));
  for (int64_t i = 0; i < dim; i += kLanes) {
    const __mmask16 mask = first_lanes(dim - i);
    _mm256_mask_storeu_epi16(pairs + 2 * i, mask, bf16_bits(_mm512_maskz_loadu_ps(mask, q + i)));
  }
}

[[gnu::target("avx512f,avx512dq")]] void cap_row(float* scores, int64_t first, int64_t end,
                                                 float softcap) {
  const __m512 cap = _mm512_set1_ps(softcap);
  const __m512 inverse = _mm512_set1_ps(1.0f / softcap);
  for (int64_t i = first; i < end; i += kLanes) {
    const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(scores + i), inverse);
    _mm512_storeu_ps(scores + i, _mm512_mul_ps(tanh_f32(x), cap));
  }
}

// Distances are whole numbers below 2^24: exact.
[[gnu::target("avx512f")]] void slope_row(float* scores, int64_t first, int64_t end,
                                          const RowScore& how) {
  const __m512 lanes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 slope = _mm512_set1_ps(how.slope);
  for (int64_t i = first; i < end; i += kLanes) {
    const __m512 distance = _mm512_add_ps(lanes, _mm512_set1_ps(how.first + static_cast<float>(i)));
    _mm512_storeu_ps(scores + i, _mm512_fmadd_ps(slope, distance, _mm512_loadu_ps(scores + i)));
  }
}

[[gnu::target("avx512f,avx512dq")]] RowTotal softmax_row(float* scores, int64_t begin, int64_t end,
                                                         const RowScore& how) {
  const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 largest = lowest;
  const int64_t first = begin / kLanes * kLanes;
  if (how.softcap > 0.0f) cap_row(scores, first, end, how.softcap);
  if (how.slope != 0.0f) slope_row(scores, first, end, how);
  for (int64_t i = first; i < end; i += kLanes) {
    const __mmask16 seen = seen_lanes(i, begin, end);
    largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, seen, scores + i));
  }
  RowTotal total;
  total.max = _mm512_reduce_max_ps(largest);
  const __m512 max = _mm512_set1_ps(total.max);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = first; i < end; i += kLanes) {
    const __mmask16 seen = seen_lanes(i, begin, end);
    const __m512 score = _mm512_mask_loadu_ps(lowest, seen, scores + i);
    const __m512 weight = _mm512_maskz_mov_ps(seen, exp_f32(_mm512_sub_ps(score, max)));
    _mm512_storeu_ps(scores + i, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  total.sum = fold_lanes(sum);
  return total;
}

[[gnu::target("avx512f")]] void combine_row(RowTotal& total, float* out, const RowTotal& part,
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
  const __m512 keep_lanes = _mm512_set1_ps(keep);
  const __m512 take_lanes = _mm512_set1_ps(take);
  for (int64_t i = 0; i < padded_dim; i += kLanes) {
    const __m512 kept = _mm512_mul_ps(_mm512_loadu_ps(out + i), keep_lanes);
    _mm512_storeu_ps(out + i, _mm512_fmadd_ps(_mm512_loadu_ps(part_out + i), take_lanes, kept));
  }
  total.sum = total.sum * keep + part.sum * take;
  total.max = max;
}

[[gnu::target("avx512f")]] void finish_row(const RowTotal& total, const float* out, int64_t dim,
                                           float* y) {
  const __m512 sum = _mm512_set1_ps(total.sum);
  for (int64_t i = 0; i < dim; i += kLanes) {
    _mm512_mask_storeu_ps(y + i, first_lanes(dim - i),
                          _mm512_div_ps(_mm512_loadu_ps(out + i), sum));
  }
}

}  // namespace
}  // namespace avx512

const Isa& avx512_isa() {
  static constexpr Isa kIsa = {.stage_q = avx512::stage_q,
                               .stage_scales = avx512::stage_scales,
                               .stage_k = avx512::stage_k,
                               .stage_v = avx512::stage_v,
                               .qk_block = avx512::qk_block,
                               .softmax_row = avx512::softmax_row,
                               .pv_block = avx512::pv_block,
                               .pv_direct = avx512::pv_direct,
                               .combine_row = avx512::combine_row,
                               .finish_row = avx512::finish_row};
  return kIsa;
}

Verdict supports_attention_groups(const KvAttentionDesc& desc) {
  for (const KvFormat& format : {desc.k_format(), desc.v_format()}) {
    if (format.quantised() && format.group % 16 != 0) {
      return Verdict::no("wants scale groups that are multiples of 16");
    }
  }
  return Verdict::yes();
}

Verdict supports_kv_attention_bf16(const KvAttentionDesc& desc) {
  if (desc.k_storage == DType::kF32 || desc.k_storage == DType::kF16) {
    return Verdict::no("takes K in bf16, i8 or f8e4m3, which bf16 holds exactly");
  }
  Verdict groups = supports_attention_groups(desc);
  return groups.supported ? needs_avx512_bf16() : groups;
}

Verdict supports_kv_attention_avx512(const KvAttentionDesc& desc) {
  Verdict groups = supports_attention_groups(desc);
  return groups.supported ? needs_avx512() : groups;
}

void kv_attention_bf16(const KvAttentionDesc& desc, const KvAttentionArgs& args) {
  launch_attention(desc, args, avx512_isa(), QkInput::kBf16);
}

void kv_attention_avx512(const KvAttentionDesc& desc, const KvAttentionArgs& args) {
  launch_attention(desc, args, avx512_isa(), QkInput::kF32);
}

}  // namespace kvern::kernels::cpu
