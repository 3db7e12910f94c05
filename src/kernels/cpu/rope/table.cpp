#include <cmath>

#include "kernels/cpu/kv_append/turn_ways.h"
#include "kernels/cpu/launch.h"
#include "kernels/rope.h"

namespace kvern::kernels {
namespace {

void run_angles(const RopeAnglesDesc& desc, const RopeAnglesArgs& args) {
  cpu::for_rows(args.stream, args.rows, desc.half_dim * 20, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const auto position = static_cast<float>(args.positions[t]);
      for (int64_t i = 0; i < desc.half_dim; ++i) {
        const float angle = position * args.frequencies[i];
        args.cos[t * desc.half_dim + i] = std::cos(angle);
        args.sin[t * desc.half_dim + i] = std::sin(angle);
      }
    }
  });
}

// turn(x, cos, sin, y) for every head of every token.
template <class Turn>
void for_heads(const RopeDesc& desc, const RopeArgs& args, const Turn& turn) {
  const int64_t half = desc.rotary_dim / 2;
  const int64_t dim = int64_t{desc.heads} * desc.head_dim;
  cpu::for_rows(args.stream, args.rows, dim, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t offset = 0; offset < dim; offset += desc.head_dim) {
        turn(args.x + t * args.x_stride + offset, args.cos + t * half, args.sin + t * half,
             args.y + t * args.y_stride + offset);
      }
    }
  });
}

void run_plain(const RopeDesc& desc, const RopeArgs& args) {
  for_heads(desc, args, [&](const float* x, const float* cos, const float* sin, float* y) {
    cpu::turn_plain(x, cos, sin, desc.head_dim, desc.rotary_dim, desc.interleaved, y);
  });
}

Verdict supports_avx512(const RopeDesc&) {
  return cpu::needs_avx512();
}

void run_avx512(const RopeDesc& desc, const RopeArgs& args) {
  const auto turn = desc.interleaved ? cpu::turn_pairs_avx512 : cpu::turn_halves_avx512;
  for_heads(desc, args, [&](const float* x, const float* cos, const float* sin, float* y) {
    turn(x, cos, sin, desc.head_dim, desc.rotary_dim, y);
  });
}

Verdict supports_avx2(const RopeDesc&) {
  return cpu::needs_avx2();
}

void run_avx2(const RopeDesc& desc, const RopeArgs& args) {
  const auto turn = desc.interleaved ? cpu::turn_pairs_avx2 : cpu::turn_halves_avx2;
  for_heads(desc, args, [&](const float* x, const float* cos, const float* sin, float* y) {
    turn(x, cos, sin, desc.head_dim, desc.rotary_dim, y);
  });
}

constexpr Impl<RopeAnglesDesc, RopeAnglesArgs> kRopeAnglesCpu[] = {
    {"cpu.rope_angles.plain", "f32.libm", cpu::supports_any, run_angles},
};

constexpr Impl<RopeDesc, RopeArgs> kRopeCpu[] = {
    {"cpu.rope.avx512", "f32.unfused", supports_avx512, run_avx512},
    {"cpu.rope.avx2", "f32.unfused", supports_avx2, run_avx2},
    {"cpu.rope.plain", "f32.unfused", cpu::supports_any, run_plain},
};

}  // namespace

std::span<const Impl<RopeAnglesDesc, RopeAnglesArgs>> RopeAnglesFamily::table() {
  return kRopeAnglesCpu;
}

std::span<const Impl<RopeDesc, RopeArgs>> RopeFamily::table() {
  return kRopeCpu;
}

}  // namespace kvern::kernels
