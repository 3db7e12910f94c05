#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/plain.h"

namespace kvern::kernels {
namespace {

using LinearImpl = Impl<LinearDesc, LinearArgs>;

constexpr LinearImpl kLinearCpu[] = {
    {"cpu.linear.plain", "plain.f32", cpu::supports_any<LinearDesc>, cpu::run_linear_plain},
};

}  // namespace

std::span<const LinearImpl> LinearFamily::table() {
  return kLinearCpu;
}

}  // namespace kvern::kernels
