#include <cstdlib>
#include <string_view>

#include "device/cpu/cpu_device.h"
#include "kvern/error.h"

namespace kvern::device {
namespace {

// __builtin_cpu_supports also asks the operating system (XGETBV) whether it keeps the registers.
CpuFeatures detect() {
  CpuFeatures f;
  __builtin_cpu_init();
  f.avx2_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("f16c");
  f.avx512 = f.avx2_fma && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  f.avx512_bf16 = f.avx512 && __builtin_cpu_supports("avx512bf16");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  f.avx512_vbmi = f.avx512 && __builtin_cpu_supports("avx512vbmi");
  return f;
}

// KVERN_CPU_ISA only takes away. "avx512" keeps VNNI and VBMI, which no numerics id depends on.
CpuFeatures limited(CpuFeatures f, std::string_view isa) {
  if (isa.empty() || isa == "avx512-bf16") return f;
  f.avx512_bf16 = false;
  if (isa == "avx512") return f;
  f.avx512 = f.avx512_vnni = f.avx512_vbmi = false;
  if (isa == "avx2") return f;
  f.avx2_fma = false;
  if (isa == "plain") return f;
  throw Error(Code::kInvalidArgument, "cpu: KVERN_CPU_ISA is '" + std::string(isa) +
                                          "'; known are plain, avx2, avx512, avx512-bf16");
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    const char* isa = std::getenv("KVERN_CPU_ISA");
    return limited(detect(), isa == nullptr ? "" : isa);
  }();
  return features;
}

}  // namespace kvern::device
