// Where a weight comes from and what is done to it: an expression over stretches of the source
// files. Nothing is read until the plan is written, one weight at a time.
//
//   concat_rows(unpermute("blk.0.attn_q.weight", 9), slice_rows("blk.0.attn_v.weight", 0, 64))
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/quant_format.h"
#include "tensor/shape.h"

namespace kvern::ir {

// Element encodings of source files. Values are part of the plan format.
enum class SourceType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kQ8_0 = 10,
  kQ4_0 = 11,
  kQ4_1 = 12,
  kQ5_0 = 13,
  kQ5_1 = 14,
  kQ4_K = 20,
  kQ5_K = 21,
  kQ6_K = 22,
  // Codes of raw tensors, read through RecipeOp::kDequantize only. Those below a byte lie low bits
  // first; rows are whole bytes.
  kI8 = 30,
  kU8 = 31,
  kI4 = 32,
  kU4 = 33,
  kU2 = 34,
};

constexpr bool is_raw(SourceType type) {
  return type >= SourceType::kI8 && type <= SourceType::kU2;
}
constexpr bool is_signed(SourceType type) {
  return type == SourceType::kI8 || type == SourceType::kI4;
}
int code_bits(SourceType type);  // of a raw type

struct SourceTypeInfo {
  SourceType type;
  const char* name;    // "Q4_K"
  int block_elements;  // a row is a whole number of blocks
  int block_bytes;
  QuantFormat exact;  // the storage that holds every value of this type exactly (`--weights keep`)
};
const SourceTypeInfo& source_type_info(SourceType type);
std::optional<SourceType> source_type_from_name(std::string_view name);

// One tensor of a source file, as it lies there.
struct WeightSource {
  std::string name;     // in the file: "blk.0.attn_q.weight"
  int32_t file = 0;     // index into Graph::files
  uint64_t offset = 0;  // in bytes from the start of the file
  uint64_t bytes = 0;
  SourceType type = SourceType::kF32;
  Shape shape;  // [rows, cols] or [elements]; rows outermost
};

enum class RecipeOp : uint8_t {
  kSource = 0,   // a WeightSource
  kConcatRows,   // inputs one below the other
  kUnpermute,    // rows of each head from GGUF's interleaved order (0,d/2,1,d/2+1,…) to halves
  kLiteral,      // f32 values written in the graph itself: results of constant folding
  kSliceRows,    // rows [first_row, first_row + num_rows)
  kHeadPart,     // rows [heads][parts][dim] -> [heads][dim], those of part `part`
  kTranspose,    // of a source of floats: [cols, rows] -> [rows, cols]
  kOffset,       // of a vector: plus values[0]
  kStridedRows,  // rows [heads][period] -> [heads][num_rows], from first_row of each period on
  kPickRows,     // rows values[0], values[1], …
  kDequantize,   // (codes, scales, zeros) -> (code - zero) * scale, of codes [r, c]:
                 // element (i, j) has the scale and zero at (i / row_block, j / col_block)
};

struct RecipeNode {
  RecipeOp op = RecipeOp::kSource;
  std::vector<int32_t> inputs = {};  // indices of earlier nodes
  int32_t source = -1;               // kSource: index into Graph::sources
  int32_t heads = 0;                 // kUnpermute, kHeadPart, kStridedRows
  std::vector<double> values = {};   // kLiteral, row-major; kOffset: one; kPickRows
  int64_t first_row = 0;             // kSliceRows, kStridedRows
  int64_t num_rows = 0;              // kSliceRows, kStridedRows
  int32_t parts = 0;                 // kHeadPart
  int32_t part = 0;                  // kHeadPart
  // kDequantize. Codes are a raw source; scales a float source or a literal; zeros raw, float or
  // literal. Scales and zeros have one element for all, or one per block: in rows of as many as
  // there are blocks in a row of codes (more where a packed row is filled up), or flat.
  int64_t row_block = 0;    // rows of codes that share a scale; 0: all
  int64_t col_block = 0;    // columns that do; 0: all
  int64_t num_cols = 0;     // the first of each row of codes; what follows fills up a block
  bool transposed = false;  // [num_cols, r] instead of [r, num_cols]
};

// Nodes in order; the last one is the result.
struct Recipe {
  std::vector<RecipeNode> nodes;
};

// The shape of a recipe's result; a literal takes `literal_shape`. Throws Error(kInvalidModel)
// where nodes do not form a tree in order, a source does not exist, or shapes do not fit together.
Shape recipe_shape(const Recipe& recipe, const std::vector<WeightSource>& sources,
                   const Shape& literal_shape);

// True for the operations whose rows are rows of their one input.
bool moves_rows(RecipeOp op);
// Of such a node over `input_rows` rows: how many rows it has, and which row of its input is its
// row `row`.
int64_t num_moved_rows(const RecipeNode& node, int64_t input_rows);
int64_t moved_row(const RecipeNode& node, int64_t row, int64_t input_rows);

// Blocks of a kDequantize node over `codes`: rows and columns of its scales.
struct ScaleGrid {
  int64_t rows, cols;
};
ScaleGrid scale_grid(const RecipeNode& node, const Shape& codes);

// A named weight of the graph: its value is f32 mathematically, whatever `storage` keeps of it.
struct Weight {
  std::string name;
  Shape shape;
  Recipe recipe;
  QuantFormat
      storage;  // set by the importer to what is exact, by quantize::apply to what was asked
};

}  // namespace kvern::ir
