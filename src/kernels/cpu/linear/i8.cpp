#include "kernels/cpu/linear/i8.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/linear/tasks.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int64_t kTaskTokens = 192;           // whose inputs a task reads again and again
constexpr int64_t kSerialElements = 64 << 10;  // quantising fewer inputs than this is one task

void quantise_block(const I8Task& t, const I8Kernels& kernels, int64_t block) {
  const I8Inputs& in = t.inputs;
  const bool nibbles = t.desc.storage == DType::kI4;
  const int32_t offset = !nibbles ? kernels.offset_i8 : t.desc.has_min ? 0 : kernels.offset_i4;
  const int64_t tokens = in.tokens_in(block);
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t first = in.first_of(block);
    const float* x = t.args.x + (first + token) * t.args.x_stride;
    uint32_t* words = in.words + first * in.num_words + token;
    int64_t at = first * in.num_stretches + token;
    for (int64_t s = 0; s < in.num_stretches; ++s, at += tokens) {
      const int64_t k = s * t.steps.stretch_elements;
      alignas(32) int8_t q[32];
      const I8Quantised made =
          kernels.quantise(x + k, std::min(t.steps.stretch_elements, t.desc.k - k), nibbles, q);
      in.scales[at] = made.scale;
      in.starts[at] = -offset * made.sum;
      if (in.sums != nullptr) in.sums[at] = made.scale * static_cast<float>(made.sum);
      for (int64_t w = 0; w < t.steps.stretch_words; ++w, words += tokens) {
        std::memcpy(words, q + 4 * w, 4);
      }
    }
  }
}

void quantise_inputs(const I8Task& task, const I8Kernels& kernels, ThreadPool& pool) {
  const int64_t blocks = task.inputs.blocks();
  if (task.inputs.rows * task.desc.k <= kSerialElements) {
    for (int64_t block = 0; block < blocks; ++block) quantise_block(task, kernels, block);
    return;
  }
  pool.parallel_for(blocks,
                    [&](int64_t block, int /*thread*/) { quantise_block(task, kernels, block); });
}

I8Inputs place_inputs(std::byte*& scratch, TokenBlocks tokens, const I8Steps& steps, bool has_min) {
  I8Inputs in{tokens};
  in.num_stretches = steps.stretches;
  in.num_words = steps.stretches * steps.stretch_words;
  const auto take = [&scratch](int64_t elements) {
    std::byte* at = scratch;
    scratch += align_up(elements * 4, kLineBytes);
    return at;
  };
  const int64_t per_stretch = tokens.rows * steps.stretches;
  in.words = reinterpret_cast<uint32_t*>(take(tokens.rows * in.num_words));
  in.scales = reinterpret_cast<float*>(take(per_stretch));
  in.starts = reinterpret_cast<int32_t*>(take(per_stretch));
  if (has_min) in.sums = reinterpret_cast<float*>(take(per_stretch));
  return in;
}

int64_t inputs_bytes(int64_t rows, const I8Steps& steps) {
  return rows * steps.stretches * (steps.stretch_words + 3) * 4 + 4 * kLineBytes;
}

void run(const LinearDesc& desc, const LinearArgs& args, const I8Kernels& kernels) {
  if (args.rows == 0) return;
  KVERN_CHECK(reinterpret_cast<uintptr_t>(args.w) % kLineBytes == 0,
              "linear: packed weights must start on 64 bytes");
  device::CpuStream& stream = cpu_stream(args.stream);
  ThreadPool& pool = stream.pool();
  const TileLayout layout = tile_layout(desc.format(), desc.k);
  const I8Steps steps(desc, layout);
  const TokenBlocks blocks = TokenBlocks::even(args.rows, kernels.block_tokens);
  std::byte* scratch = stream.scratch(static_cast<size_t>(inputs_bytes(args.rows, steps)));
  const I8Inputs inputs = place_inputs(scratch, blocks, steps, desc.has_min);
  const I8Task task{desc, layout, steps, args, inputs};
  quantise_inputs(task, kernels, pool);

  // Consecutive tasks share their tokens, which stay in L2 while the weights stream.
  const int64_t tiles = ceil_div(desc.n, kTileRows);
  const int64_t task_blocks = std::max<int64_t>(1, kTaskTokens / blocks.block_tokens);
  const FewTokensTasks stretch(tiles, pool.num_threads());
  pool.parallel_for(
      ceil_div(blocks.blocks(), task_blocks) * stretch.tasks, [&](int64_t i, int /*thread*/) {
        const int64_t block = i / stretch.tasks * task_blocks;
        const int64_t at = i % stretch.tasks;
        kernels.run(task, block, std::min(blocks.blocks(), block + task_blocks), stretch.first(at),
                    std::min(tiles, stretch.first(at + 1)), stretch.first(at + pool.num_threads()));
      });
}

}  // namespace

I8Steps::I8Steps(const LinearDesc& desc, const TileLayout& layout)
    : stretch_elements(desc.group == 16 ? 16 : 32),
      stretch_words(stretch_elements / 4),
      stretch_lines(stretch_elements / layout.step_elements),
      stretches(ceil_div(desc.k, stretch_elements)),
      group_shift(layout.groups == 1
                      ? 63
                      : std::countr_zero(static_cast<uint64_t>(desc.group / stretch_elements))),
      words(layout.steps * layout.step_elements / 4) {}

Verdict supports_linear_i8(const LinearDesc& desc) {
  if (desc.activations != Activations::kInt8) {
    return Verdict::no("inputs in int8 only when asked for (--activations int8)");
  }
  if (!desc.format().quantised()) return Verdict::no("float weights have no integer products");
  return Verdict::yes();
}

Verdict supports_linear_i8_avx2(const LinearDesc& desc) {
  const Verdict verdict = supports_linear_i8(desc);
  return verdict.supported ? needs_avx2() : verdict;
}

Verdict supports_linear_i8_vnni(const LinearDesc& desc) {
  const Verdict verdict = supports_linear_i8(desc);
  if (!verdict.supported) return verdict;
  if (device::cpu_features().avx512_vnni) return Verdict::yes();
  return Verdict::lacks("needs AVX512-VNNI");
}

void run_linear_i8_plain(const LinearDesc& desc, const LinearArgs& args) {
  run(desc, args, i8_kernels_plain());
}

void run_linear_i8_avx2(const LinearDesc& desc, const LinearArgs& args) {
  run(desc, args, i8_kernels_avx2());
}

void run_linear_i8_vnni(const LinearDesc& desc, const LinearArgs& args) {
  run(desc, args, i8_kernels_vnni());
}

}  // namespace kvern::kernels::cpu
