#include "kernels/cpu/linear/bf16.h"

#include <algorithm>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/tasks.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kTaskTokens = 192;           // tokens whose sums a task keeps: 24 KiB
constexpr int64_t kSerialElements = 64 << 10;  // rounding fewer inputs than this is one task

// Up to these rows codes are expanded in registers for each block of tokens, above them once for
// all to L1. GFLOP/s on one thread for 16, 64 and 512 rows, in registers and through L1:
// int4 190, 190, 183 and 161, 177, 180; int8 189, 189, 184 and 172, 190, 188.
int64_t max_few_rows(DType storage) {
  if (storage == DType::kI4) return kTaskTokens;
  return storage == DType::kI8 ? 24 : kMaxFewTokens;
}

// Blocks as equal as they get, so that 13 tokens are 7 and 6 rather than 12 and 1.
int64_t block_tokens(int64_t rows, bool few, bool grouped) {
  if (few) return ceil_div(rows, ceil_div(rows, kMaxFewTokens));
  return ceil_div(rows, ceil_div(rows, grouped ? kMaxGroupedTokens : kMaxTokens));
}

struct Sizes {
  int64_t pairs_bytes;
  int64_t sums_bytes;
  int64_t thread_bytes;
  int64_t task_blocks;
};

Sizes sizes_of(const Bf16Inputs& inputs, bool few, bool has_min) {
  Sizes s{};
  s.pairs_bytes = align_up(inputs.rows * inputs.num_pairs * 4, kLineBytes);
  s.sums_bytes = has_min ? align_up(inputs.rows * inputs.groups * 4, kLineBytes) : 0;
  s.task_blocks =
      std::min(inputs.blocks(), std::max<int64_t>(1, kTaskTokens / inputs.block_tokens));
  s.thread_bytes =
      few ? 0 : align_up(many_scratch_bytes(s.task_blocks * inputs.block_tokens), kLineBytes);
  return s;
}

void round_inputs(const LinearDesc& desc, const TileLayout& layout, const LinearArgs& args,
                  const Bf16Inputs& inputs, ThreadPool& pool) {
  if (inputs.rows * desc.k <= kSerialElements) {
    for (int64_t block = 0; block < inputs.blocks(); ++block) {
      round_block(desc, layout, args, inputs, block);
    }
    return;
  }
  pool.parallel_for(inputs.blocks(), [&](int64_t block, int /*thread*/) {
    round_block(desc, layout, args, inputs, block);
  });
}

}  // namespace

Verdict supports_linear_bf16(const LinearDesc& desc) {
  if (desc.storage == DType::kF32 || desc.storage == DType::kF16) {
    return Verdict::no("f32 and f16 weights would lose bits in bf16");
  }
  if (desc.int8_inputs()) return Verdict::no("inputs are wanted in int8");
  return needs_avx512_bf16();
}

void run_linear_bf16(const LinearDesc& desc, const LinearArgs& args) {
  if (args.rows == 0) return;
  KVERN_CHECK(reinterpret_cast<uintptr_t>(args.w) % kLineBytes == 0,
              "linear: packed weights must start on 64 bytes");
  device::CpuStream& stream = cpu_stream(args.stream);
  ThreadPool& pool = stream.pool();
  const TileLayout layout = tile_layout(desc.format(), desc.k);
  const bool few_rows = args.rows <= max_few_rows(desc.storage);
  Bf16Inputs inputs;
  inputs.rows = args.rows;
  inputs.block_tokens = block_tokens(args.rows, few_rows, layout.groups > 1);
  inputs.num_pairs = align_up(layout.steps * layout.step_elements / 2, 8);
  inputs.groups = layout.groups;
  const Sizes sizes = sizes_of(inputs, few_rows, desc.has_min);
  std::byte* scratch = stream.scratch(static_cast<size_t>(sizes.pairs_bytes + sizes.sums_bytes +
                                                          pool.num_threads() * sizes.thread_bytes));
  inputs.pairs = reinterpret_cast<uint32_t*>(scratch);
  if (desc.has_min) inputs.sums = reinterpret_cast<float*>(scratch + sizes.pairs_bytes);
  scratch += sizes.pairs_bytes + sizes.sums_bytes;
  round_inputs(desc, layout, args, inputs, pool);

  const int64_t tiles = ceil_div(desc.n, kTileRows);
  const int64_t tile_pairs = ceil_div(tiles, 2);
  const int64_t parts = ceil_div(inputs.blocks(), sizes.task_blocks);
  if (few_rows) {
    const FewTokensTasks few(tiles, pool.num_threads());
    pool.parallel_for(parts * few.tasks, [&](int64_t task, int /*thread*/) {
      const int64_t block = task / few.tasks * sizes.task_blocks;
      const int64_t at = task % few.tasks;
      linear_bf16_few(desc, layout, args, inputs, block,
                      std::min(inputs.blocks(), block + sizes.task_blocks), few.first(at),
                      std::min(tiles, few.first(at + 1)), few.first(at + pool.num_threads()));
    });
    return;
  }
  // Consecutive tasks share their tokens, which stay in L2 while the weights stream.
  pool.parallel_for(parts * tile_pairs, [&](int64_t task, int thread) {
    const int64_t first = task / tile_pairs * sizes.task_blocks;
    const int64_t tile = task % tile_pairs * 2;
    linear_bf16_many(desc, layout, args, inputs, tile, first,
                     std::min(inputs.blocks(), first + sizes.task_blocks),
                     tile + 2 * pool.num_threads(), scratch + thread * sizes.thread_bytes);
  });
}

}  // namespace kvern::kernels::cpu
