// The AVX512-VNNI parts of the int8 linear: a few tokens, and many.
#pragma once

#include "kernels/cpu/linear/i8.h"

namespace kvern::kernels::cpu {

inline constexpr int64_t kVnniFewTokens = 8;
inline constexpr int64_t kVnniManyTokens = 12;  // 2 tiles x 12 integer sums

void i8_vnni_few(const I8Task& task, int64_t first, int64_t last, int64_t next);
void i8_vnni_many(const I8Task& task, int64_t tile, int64_t first, int64_t last, int64_t next,
                  std::byte* scratch);
int64_t i8_vnni_scratch_bytes(int64_t tokens);

}  // namespace kvern::kernels::cpu
