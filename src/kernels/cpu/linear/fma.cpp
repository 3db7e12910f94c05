#include "kernels/cpu/linear/fma.h"

#include <cmath>

#include "base/check.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/store_lanes.h"
#include "kernels/cpu/linear/tasks.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kTaskTokens = 192;           // tokens whose outputs a task keeps: 12 KiB
constexpr int64_t kSerialElements = 64 << 10;  // arranging fewer inputs than this is one task
constexpr int64_t kPlane = kFmaStretchGroups * kTileRows;

// What a task of many tokens keeps.
struct Scratch {
  float* w;       // [kFmaStretch][16]
  float* scales;  // [kFmaStretchGroups][16]
  float* minima;
  float* y;  // [tokens][16]

  explicit Scratch(std::byte* base)
      : w(reinterpret_cast<float*>(base)),
        scales(w + kFmaStretch * kTileRows),
        minima(scales + kPlane),
        y(minima + kPlane) {}
  static int64_t bytes(int64_t tokens) {
    return align_up((kFmaStretch * kTileRows + 2 * kPlane + tokens * kTileRows) *
                        static_cast<int64_t>(sizeof(float)),
                    kLineBytes);
  }
};

// Scale and minimum of rows that are one group, whose sums went on over all stretches.
void scale_whole_rows(const FmaTask& task, int64_t from, int64_t to, const Scratch& s) {
  for (int64_t token = from; token < to; ++token) {
    float* y = s.y + (token - from) * kTileRows;
    for (int64_t lane = 0; lane < kTileRows; ++lane) {
      y[lane] = std::fma(s.scales[lane], y[lane], 0.0f);
      if (task.desc.has_min) {
        y[lane] = std::fma(s.minima[lane], task.inputs.sums[token], y[lane]);
      }
    }
  }
}

// Outputs of a tile for token blocks [first, last): codes become f32 once per stretch of K, then
// serve all the tokens.
void many(const FmaTask& task, const FmaWidth& width, int64_t tile, int64_t first, int64_t last,
          int64_t next, std::byte* scratch) {
  const Scratch s(scratch);
  const FmaInputs& in = task.inputs;
  const TileLayout& l = task.layout;
  const std::byte* packed = task.args.w + tile * l.tile_bytes;
  const int64_t from = in.first_of(first);
  const int64_t to = std::min(in.rows, in.first_of(last));
  const bool carry = l.groups <= 1;
  const float start = fma_start(task.desc);
  for (int64_t token = from; token < to; ++token) {
    const float first_sum = carry && start != 0.0f ? start * in.sums[token] : 0.0f;
    std::fill_n(s.y + (token - from) * kTileRows, kTileRows, first_sum);
  }
  const int64_t stretch_steps = kFmaStretch / l.step_elements;
  for (int64_t step = 0; step < l.steps; step += stretch_steps) {
    const int64_t end = std::min(l.steps, step + stretch_steps);
    const int64_t group = carry ? 0 : step / l.steps_per_group;
    const int64_t groups = carry ? 1 : ceil_div(end - step, l.steps_per_group);
    if (task.desc.storage != DType::kF32) {
      fma_expand(task.desc, l, packed, step, end, (next - tile) * l.tile_bytes, s.w);
    }
    if (l.groups > 0) fma_planes(task.desc, l, packed, group, group + groups, s.scales, s.minima);
    FmaStretch stretch{};
    stretch.w = task.desc.storage == DType::kF32
                    ? reinterpret_cast<const float*>(packed + l.codes_at(step))
                    : s.w;
    stretch.scales = carry ? nullptr : s.scales;
    stretch.minima = task.desc.has_min ? s.minima : nullptr;
    stretch.start = carry ? 0.0f : start;
    stretch.k = (end - step) * l.step_elements;
    stretch.group_k = carry ? stretch.k : l.steps_per_group * l.step_elements;
    for (int64_t block = first; block < last; ++block) {
      const int64_t tokens = in.tokens_in(block);
      stretch.x = in.x_of(block) + step * l.step_elements * tokens;
      stretch.xsums = in.sums == nullptr ? nullptr : in.sums_of(block) + group * tokens;
      stretch.y = s.y + (in.first_of(block) - from) * kTileRows;
      width.multiply[tokens - 1](stretch);
    }
  }
  if (carry && l.groups > 0) scale_whole_rows(task, from, to, s);
  for (int64_t token = from; token < to; ++token) {
    store_lanes(task.desc, task.args, token, tile, s.y + (token - from) * kTileRows);
  }
}

void arrange_inputs(const FmaTask& task, ThreadPool& pool) {
  const int64_t blocks = task.inputs.blocks();
  if (task.inputs.rows * task.desc.k <= kSerialElements) {
    for (int64_t block = 0; block < blocks; ++block) fma_arrange(task, block);
    return;
  }
  pool.parallel_for(blocks, [&](int64_t block, int /*thread*/) { fma_arrange(task, block); });
}

void run(const LinearDesc& desc, const LinearArgs& args, const FmaWidth& width) {
  if (args.rows == 0) return;
  KVERN_CHECK(reinterpret_cast<uintptr_t>(args.w) % kLineBytes == 0,
              "linear: packed weights must start on 64 bytes");
  device::CpuStream& stream = cpu_stream(args.stream);
  ThreadPool& pool = stream.pool();
  const TileLayout layout = tile_layout(desc.format(), desc.k);
  const bool few = args.rows <= fma_few_rows(desc.storage);
  FmaInputs inputs{TokenBlocks::even(args.rows, few ? kFmaFewTokens : width.block_tokens)};
  inputs.num_k = layout.steps * layout.step_elements;
  inputs.groups = layout.groups;
  const int64_t task_blocks =
      std::min(inputs.blocks(), std::max<int64_t>(1, kTaskTokens / inputs.block_tokens));
  const int64_t x_bytes = align_up(args.rows * inputs.num_k * 4, kLineBytes);
  const int64_t sums_bytes =
      fma_needs_sums(desc) ? align_up(args.rows * inputs.groups * 4, kLineBytes) : 0;
  const int64_t thread_bytes = few ? 0 : Scratch::bytes(task_blocks * inputs.block_tokens);
  std::byte* scratch =
      stream.scratch(static_cast<size_t>(x_bytes + sums_bytes + pool.num_threads() * thread_bytes));
  inputs.x = reinterpret_cast<float*>(scratch);
  if (sums_bytes > 0) inputs.sums = reinterpret_cast<float*>(scratch + x_bytes);
  scratch += x_bytes + sums_bytes;
  const FmaTask task{desc, layout, args, inputs};
  arrange_inputs(task, pool);

  const int64_t tiles = ceil_div(desc.n, kTileRows);
  if (few) {
    const FewTokensTasks tasks(tiles, pool.num_threads());
    pool.parallel_for(tasks.tasks, [&](int64_t i, int /*thread*/) {
      fma_few(task, tasks.first(i), std::min(tiles, tasks.first(i + 1)),
              tasks.first(i + pool.num_threads()));
    });
    return;
  }
  // Consecutive tasks share their tokens, which stay in L2 while the weights stream.
  const int64_t parts = ceil_div(inputs.blocks(), task_blocks);
  pool.parallel_for(parts * tiles, [&](int64_t i, int thread) {
    const int64_t first = i / tiles * task_blocks;
    const int64_t tile = i % tiles;
    many(task, width, tile, first, std::min(inputs.blocks(), first + task_blocks),
         tile + pool.num_threads(), scratch + thread * thread_bytes);
  });
}

Verdict takes_bf16(const LinearDesc& desc) {
  if (desc.storage == DType::kF32 || desc.storage == DType::kF16) {
    return Verdict::no("f32 and f16 weights take f32 inputs");
  }
  if (desc.int8_inputs()) return Verdict::no("inputs are wanted in int8");
  return Verdict::yes();
}

Verdict takes_f32(const LinearDesc& desc) {
  if (desc.storage == DType::kF32 || desc.storage == DType::kF16) return Verdict::yes();
  return Verdict::no("weights of other formats take bf16 inputs");
}

Verdict both(Verdict first, Verdict second) {
  return first.supported ? second : first;
}

}  // namespace

Verdict supports_linear_bf16_fma_avx2(const LinearDesc& desc) {
  return both(takes_bf16(desc), needs_avx2());
}
Verdict supports_linear_bf16_fma_avx512(const LinearDesc& desc) {
  return both(takes_bf16(desc), needs_avx512());
}
Verdict supports_linear_f32_fma_avx2(const LinearDesc& desc) {
  return both(takes_f32(desc), needs_avx2());
}
Verdict supports_linear_f32_fma_avx512(const LinearDesc& desc) {
  return both(takes_f32(desc), needs_avx512());
}

void run_linear_fma_avx2(const LinearDesc& desc, const LinearArgs& args) {
  run(desc, args, fma_width_avx2());
}

void run_linear_fma_avx512(const LinearDesc& desc, const LinearArgs& args) {
  run(desc, args, fma_width_avx512());
}

}  // namespace kvern::kernels::cpu
