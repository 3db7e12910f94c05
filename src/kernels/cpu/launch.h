// What every CPU kernel needs from its stream: the pool, scratch, and verdicts on the processor.
#pragma once

#include "base/function_ref.h"
#include "device/cpu/cpu_device.h"
#include "kernels/impl.h"

namespace kvern::kernels::cpu {

inline device::CpuStream& cpu_stream(device::Stream* stream) {
  return static_cast<device::CpuStream&>(*stream);
}

// Calls fn(begin, end) over [0, rows) in pieces. A dispatch costs 1-2 us, and a decode step has
// hundreds of small ops, so work estimated below ~20 us stays on the calling thread.
void for_rows(device::Stream* stream, int64_t rows, int64_t ns_per_row,
              FunctionRef<void(int64_t begin, int64_t end)> fn);

template <class Desc>
Verdict supports_any(const Desc&) {
  return Verdict::yes();
}

inline Verdict needs_avx2() {
  if (device::cpu_features().avx2_fma) return Verdict::yes();
  return Verdict::lacks("needs AVX2, FMA and F16C");
}

inline Verdict needs_avx512() {
  if (device::cpu_features().avx512) return Verdict::yes();
  return Verdict::lacks("needs AVX-512 F, BW, DQ and VL");
}

inline Verdict needs_avx512_bf16() {
  if (device::cpu_features().avx512_bf16) return Verdict::yes();
  return Verdict::lacks("needs AVX512-BF16");
}

}  // namespace kvern::kernels::cpu
