// Rows of source tensors as numbers: floats, or the integer codes that a block format holds.
// Layouts are those of GGML's block formats (facts; checked against the PyPI package `gguf`).
#pragma once

#include <cstddef>
#include <cstdint>

#include "compile/ir/recipe.h"

namespace kvern::quantize {

// Where one row goes: codes [k], scales and minima [groups of SourceTypeInfo::exact]. Minima are
// written only by formats that have them.
struct RowCodes {
  int8_t* codes;
  float* scales;
  float* minima;
};

// row: k elements of a block format; k is a whole number of blocks. No alignment is asked for.
void decode_codes(ir::SourceType type, const std::byte* row, int64_t k, const RowCodes& to);

// row: k elements of F32, F16 or BF16.
void decode_floats(ir::SourceType type, const std::byte* row, int64_t k, float* to);

}  // namespace kvern::quantize
