#include "kernels/cpu/launch.h"
#include "kernels/cpu/rms_norm/impls.h"

namespace kvern::kernels {
namespace {

constexpr Impl<RmsNormDesc, RmsNormArgs> kRmsNormCpu[] = {
    {"cpu.rms_norm.avx512", "f32.lanes16", cpu::supports_rms_norm_avx512, cpu::rms_norm_avx512},
    {"cpu.rms_norm.avx2", "f32.lanes16", cpu::supports_rms_norm_avx2, cpu::rms_norm_avx2},
    {"cpu.rms_norm.plain", "f32.lanes16", cpu::supports_any, cpu::rms_norm_plain},
};

}  // namespace

std::span<const Impl<RmsNormDesc, RmsNormArgs>> RmsNormFamily::table() {
  return kRmsNormCpu;
}

}  // namespace kvern::kernels
