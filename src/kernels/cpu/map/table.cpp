#include "kernels/cpu/launch.h"
#include "kernels/cpu/map/impls.h"

namespace kvern::kernels {
namespace {

using cpu::run_map;

// They differ in exp, tanh, sigmoid and erf alone, as those of elementwise do.
constexpr Impl<MapDesc, MapArgs> kMapCpu[] = {
    {"cpu.map.avx512", "f32.exp6", [](const MapDesc&) { return cpu::needs_avx512(); },
     [](const MapDesc& d, const MapArgs& a) { run_map(d, a, cpu::avx512_map_loops()); }},
    {"cpu.map.avx2", "f32.exp6", [](const MapDesc&) { return cpu::needs_avx2(); },
     [](const MapDesc& d, const MapArgs& a) { run_map(d, a, cpu::avx2_map_loops()); }},
    {"cpu.map.plain", "f32.libm", cpu::supports_any,
     [](const MapDesc& d, const MapArgs& a) { run_map(d, a, cpu::plain_map_loops()); }},
};

}  // namespace

std::span<const Impl<MapDesc, MapArgs>> MapFamily::table() {
  return kMapCpu;
}

}  // namespace kvern::kernels
