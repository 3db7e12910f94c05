// The linear with int8 inputs (--activations int8) for integer weights. Numerics id "i8.k32.f32":
//
//   A stretch is 32 elements of K, 16 for weights in groups of 16. Of each token and stretch:
//     d = max|x| / 127, q = round to even(x * (127 / max|x|)); below 1e-30 both are 0
//   y = 0; for stretches ascending: y = fma(scale, d * f32(sum of code * q), y),
//                             then: y = fma(min, d * f32(sum of q), y) where there are minima
//   then y + bias
//
// Integer sums are exact in any order and the rest has one order per output, so instruction sets,
// rows, tasks and threads change no bit. The sum of q, not of x, goes with the minimum: a weight's
// code is not centred but code and minimum together are, so their errors cancel.
#pragma once

#include "kernels/cpu/linear/token_blocks.h"
#include "kernels/cpu/pack/tile_layout.h"
#include "kernels/linear.h"

namespace kvern::kernels::cpu {

// K as the int8 kernels walk it: words of four codes, stretches of words.
struct I8Steps {
  int64_t stretch_elements = 0;
  int64_t stretch_words = 0;
  int64_t stretch_lines = 0;  // of packed weights
  int64_t stretches = 0;
  int64_t group_shift = 0;  // stretches per group as a power of two; 63 for whole rows
  int64_t words = 0;        // of the weight; inputs have stretches * stretch_words of them

  I8Steps(const LinearDesc& desc, const TileLayout& layout);
  int64_t group_of(int64_t stretch) const { return stretch >> group_shift; }
  int64_t first_line(int64_t stretch) const { return stretch * stretch_lines; }
  // Lines in a stretch; the last one may be shorter.
  int64_t lines_in(const TileLayout& layout, int64_t stretch) const {
    return std::min(stretch_lines, layout.steps - first_line(stretch));
  }
};

// Quantised inputs of one call.
struct I8Inputs : TokenBlocks {
  uint32_t* words = nullptr;  // [block][words][t] four q in the order of the weight's bytes
  float* scales = nullptr;    // [block][stretches][t] d
  int32_t* starts = nullptr;  // [block][stretches][t] -offset * sum of q
  float* sums = nullptr;      // [block][stretches][t] d * sum of q; nullptr without minima
  int64_t num_words = 0;      // of a token
  int64_t num_stretches = 0;

  const uint32_t* words_of(int64_t block) const { return words + first_of(block) * num_words; }
  const float* scales_of(int64_t block) const { return scales + first_of(block) * num_stretches; }
  const int32_t* starts_of(int64_t block) const { return starts + first_of(block) * num_stretches; }
  const float* sums_of(int64_t block) const {
    return sums == nullptr ? nullptr : sums + first_of(block) * num_stretches;
  }
};

// The order of a line's bytes in i4: low nibbles are elements 0, 4, 1, 5, high ones 2, 6, 3, 7.
inline constexpr int kI4Order[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// One token's stretch: `count` inputs, padded with zeros to 32, as q [32]; eights of them in
// kI4Order where asked. Returns d and the sum of q.
struct I8Quantised {
  float scale;
  int32_t sum;
};
using I8Quantise = I8Quantised (*)(const float* x, int64_t count, bool i4_order, int8_t* q);
I8Quantised quantise_plain(const float* x, int64_t count, bool i4_order, int8_t* q);
I8Quantised quantise_avx2(const float* x, int64_t count, bool i4_order, int8_t* q);

// The tiles of one task.
struct I8Task {
  const LinearDesc& desc;
  const TileLayout& layout;
  const I8Steps& steps;
  const LinearArgs& args;
  const I8Inputs& inputs;
};

// What an instruction set brings.
struct I8Kernels {
  I8Quantise quantise;
  // What is added to signed codes to make the unsigned operand of a dot product; i4 with minima is
  // unsigned as it is.
  int32_t offset_i8;
  int32_t offset_i4;
  int64_t block_tokens;  // at most
  // Outputs of tiles [first, last) for token blocks [first_block, last_block). `next` is the tile
  // that this thread most likely reads after them; it may lie beyond the weight.
  void (*run)(const I8Task& task, int64_t first_block, int64_t last_block, int64_t first,
              int64_t last, int64_t next);
};

const I8Kernels& i8_kernels_plain();
const I8Kernels& i8_kernels_avx2();
const I8Kernels& i8_kernels_vnni();

Verdict supports_linear_i8(const LinearDesc& desc);
Verdict supports_linear_i8_avx2(const LinearDesc& desc);
Verdict supports_linear_i8_vnni(const LinearDesc& desc);
void run_linear_i8_plain(const LinearDesc& desc, const LinearArgs& args);
void run_linear_i8_avx2(const LinearDesc& desc, const LinearArgs& args);
void run_linear_i8_vnni(const LinearDesc& desc, const LinearArgs& args);

}  // namespace kvern::kernels::cpu
