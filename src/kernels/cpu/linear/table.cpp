#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/bf16.h"
#include "kernels/cpu/linear/fma.h"
#include "kernels/cpu/linear/i8.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels {
namespace {

using LinearImpl = Impl<LinearDesc, LinearArgs>;

// What each takes and lacks is said by its `supports`; one id is one row of bits, whoever computes
// it.
constexpr LinearImpl kLinearCpu[] = {
    {"cpu.linear.i8.avx512vnni", "i8.k32.f32", cpu::supports_linear_i8_vnni,
     cpu::run_linear_i8_vnni},
    {"cpu.linear.i8.avx2", "i8.k32.f32", cpu::supports_linear_i8_avx2, cpu::run_linear_i8_avx2},
    {"cpu.linear.i8.plain", "i8.k32.f32", cpu::supports_linear_i8, cpu::run_linear_i8_plain},
    {"cpu.linear.avx512bf16", "bf16.pairs.f32", cpu::supports_linear_bf16, cpu::run_linear_bf16},
    {"cpu.linear.bf16_fma.avx512", "bf16.fma.f32", cpu::supports_linear_bf16_fma_avx512,
     cpu::run_linear_fma_avx512},
    {"cpu.linear.bf16_fma.avx2", "bf16.fma.f32", cpu::supports_linear_bf16_fma_avx2,
     cpu::run_linear_fma_avx2},
    {"cpu.linear.f32_fma.avx512", "plain.f32", cpu::supports_linear_f32_fma_avx512,
     cpu::run_linear_fma_avx512},
    {"cpu.linear.f32_fma.avx2", "plain.f32", cpu::supports_linear_f32_fma_avx2,
     cpu::run_linear_fma_avx2},
    {"cpu.linear.plain", "plain.f32", cpu::supports_any<LinearDesc>, cpu::run_linear_plain},
};

}  // namespace

std::span<const LinearImpl> LinearFamily::table() {
  return kLinearCpu;
}

}  // namespace kvern::kernels
