#include "kernels/cpu/launch.h"
#include "kernels/cpu/layer_norm/impls.h"

namespace kvern::kernels {
namespace {

constexpr Impl<LayerNormDesc, LayerNormArgs> kLayerNormCpu[] = {
    {"cpu.layer_norm.avx512", "f32.lanes16", cpu::supports_layer_norm_avx512,
     cpu::layer_norm_avx512},
    {"cpu.layer_norm.avx2", "f32.lanes16", cpu::supports_layer_norm_avx2, cpu::layer_norm_avx2},
    {"cpu.layer_norm.plain", "f32.lanes16", cpu::supports_any, cpu::layer_norm_plain},
};

}  // namespace

std::span<const Impl<LayerNormDesc, LayerNormArgs>> LayerNormFamily::table() {
  return kLayerNormCpu;
}

}  // namespace kvern::kernels
