// The loops of avx2_isa(), by file. Vectors of 8: a block of 16 positions, or 16 columns, is two.
#pragma once

#include "kernels/cpu/kv_attention/isa.h"

namespace kvern::kernels::cpu::avx2 {

inline constexpr int64_t kHalf = kLanes / 2;

void stage_scales(const std::byte* scales, int64_t count, float factor, float* to);
void stage_k(QkInput input, const KvRange& range, const SplitSource& from, float* k,
             float* k_scale);
void stage_v(const KvRange& range, const SplitSource& from, int64_t padded_dim, float* v);

void qk_block(QkInput input, const QkBlock& block, int64_t rows, int64_t begin, int64_t end);
void pv_block(const PvBlock& block, int64_t rows);
void pv_direct(const PvDirect& direct, int64_t rows);

}  // namespace kvern::kernels::cpu::avx2
