#include "kernels/cpu/elementwise/impls.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels {
namespace {

// They differ in exp, tanh and erf alone: libm's, and ours of cpu/avx512_math.h and
// cpu/avx2_math.h.
constexpr Impl<ElementwiseDesc, ElementwiseArgs> kElementwiseCpu[] = {
    {"cpu.elementwise.avx512", "f32.exp6", cpu::supports_elementwise_avx512,
     cpu::elementwise_avx512},
    {"cpu.elementwise.avx2", "f32.exp6", cpu::supports_elementwise_avx2, cpu::elementwise_avx2},
    {"cpu.elementwise.plain", "f32.libm", cpu::supports_any, cpu::elementwise_plain},
};

}  // namespace

std::span<const Impl<ElementwiseDesc, ElementwiseArgs>> ElementwiseFamily::table() {
  return kElementwiseCpu;
}

}  // namespace kvern::kernels
