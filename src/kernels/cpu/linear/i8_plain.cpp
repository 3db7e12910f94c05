#include <cmath>
#include <cstring>

#include "kernels/cpu/linear/i8.h"
#include "kernels/cpu/linear/store_lanes.h"

namespace kvern::kernels::cpu {
namespace {

// Sums of codes times inputs of one stretch and token, by output: sum[lane] += ….
template <bool kNibbles>
void dot_stretch(const std::byte* line, int64_t lines, bool has_min, const uint32_t* words,
                 int64_t stride, int32_t* sum) {
  for (int64_t l = 0; l < lines; ++l, line += kLineBytes) {
    for (int half = 0; half < (kNibbles ? 2 : 1); ++half, words += stride) {
      int8_t q[4];
      std::memcpy(q, words, 4);
      for (int64_t i = 0; i < kTileRows * 4; ++i) {
        int code = static_cast<int8_t>(line[i]);
        if constexpr (kNibbles) {
          code = (static_cast<int>(line[i]) >> (4 * half)) & 15;
          if (!has_min && code > 7) code -= 16;
        }
        sum[i / 4] += code * q[i % 4];
      }
    }
  }
}

// y += scale * (d * sum), then += min * (d * sum of q).
void add_stretch(const LinearDesc& desc, const TileLayout& l, const std::byte* tile, int64_t group,
                 const int32_t* sum, float d, float xsum, float* y) {
  for (int64_t lane = 0; lane < kTileRows; ++lane) {
    const int64_t at = lane * l.scale_bytes;
    const float scale = load_scale(desc.scale, tile + l.scale_at(group) + at);
    y[lane] = std::fma(scale, d * static_cast<float>(sum[lane]), y[lane]);
    if (!desc.has_min) continue;
    y[lane] = std::fma(load_scale(desc.scale, tile + l.min_at(group) + at), xsum, y[lane]);
  }
}

void run(const I8Task& t, int64_t first_block, int64_t last_block, int64_t first, int64_t last,
         int64_t /*next*/) {
  const auto dot = t.desc.storage == DType::kI4 ? dot_stretch<true> : dot_stretch<false>;
  for (int64_t tile = first; tile < last; ++tile) {
    const std::byte* packed = t.args.w + tile * t.layout.tile_bytes;
    for (int64_t token = first_block; token < last_block; ++token) {  // blocks of one token
      float y[kTileRows] = {};
      for (int64_t s = 0; s < t.steps.stretches; ++s) {
        int32_t sum[kTileRows] = {};
        const int64_t at = token * t.steps.stretches + s;
        dot(packed + t.layout.codes_at(t.steps.first_line(s)), t.steps.lines_in(t.layout, s),
            t.desc.has_min, t.inputs.words + at * t.steps.stretch_words, 1, sum);
        add_stretch(t.desc, t.layout, packed, t.steps.group_of(s), sum, t.inputs.scales[at],
                    t.desc.has_min ? t.inputs.sums[at] : 0.0f, y);
      }
      store_lanes(t.desc, t.args, token, tile, y);
    }
  }
}

}  // namespace

const I8Kernels& i8_kernels_plain() {
  static constexpr I8Kernels kKernels = {quantise_plain, 0, 0, 1, run};
  return kKernels;
}

}  // namespace kvern::kernels::cpu
