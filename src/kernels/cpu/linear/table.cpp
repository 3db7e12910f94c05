#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/bf16.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels {
namespace {

using LinearImpl = Impl<LinearDesc, LinearArgs>;

constexpr LinearImpl kLinearCpu[] = {
    {"cpu.linear.avx512bf16", "bf16.pairs.f32", cpu::supports_linear_bf16, cpu::run_linear_bf16},
    {"cpu.linear.plain", "plain.f32", cpu::supports_any<LinearDesc>, cpu::run_linear_plain},
};

}  // namespace

std::span<const LinearImpl> LinearFamily::table() {
  return kLinearCpu;
}

}  // namespace kvern::kernels
