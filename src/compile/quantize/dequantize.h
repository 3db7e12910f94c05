// Codes of raw tensors with scales and zero points of their own: RecipeOp::kDequantize.
#pragma once

#include <vector>

#include "compile/quantize/blocks.h"
#include "compile/quantize/materialize.h"

namespace kvern::quantize {

// The storage that holds rows of `k` elements of what the node makes: their codes as they are, and
// scales and minima (-zero * scale) as f32 holds them. f32 where scales do not follow a row in
// groups that kernels know. Zeros from the file are taken to differ: an importer that sees only one
// value writes it as a literal.
QuantFormat dequantized_format(const ir::Graph& graph, const ir::Recipe& recipe,
                               const ir::RecipeNode& node);

// Nodes that a dequantisation reads: parts of its result, not parts of the weight. Codes are left
// out where `codes` is false.
std::vector<bool> read_by_dequantize(const ir::Recipe& recipe, bool codes);

class Dequantizer {
 public:
  // Sources were checked to lie inside their files. All arguments must outlive this.
  Dequantizer(const ir::Graph& graph, const ir::Recipe& recipe, const ir::RecipeNode& node,
              const Files& files);

  int64_t num_rows() const { return node_->transposed ? node_->num_cols : rows_; }
  const QuantFormat& format() const { return format_; }
  // Row `row`: (code - zero) * scale in f32, as ONNX defines it.
  void read(int64_t row, float* to) const;
  // The same in the codes of format(), which must be quantised.
  void codes(int64_t row, const RowCodes& to) const;

 private:
  // A tensor of numbers beside the codes, one per block.
  struct Blocks {
    const std::byte* data = nullptr;  // nullptr: a literal's `values`
    ir::SourceType type = ir::SourceType::kF32;
    std::vector<float> values;
    int64_t row_stride = 0;
    bool one = false;
    float at(int64_t row, int64_t col) const;
  };

  Blocks blocks(size_t input, const ir::Recipe& recipe, const ir::Graph& graph,
                const Files& files) const;
  int code(int64_t row, int64_t i) const;
  // Of element `i` of row `row` of the result.
  float block_value(const Blocks& blocks, int64_t row, int64_t i) const;
  int64_t num_elements() const { return node_->transposed ? rows_ : node_->num_cols; }

  const ir::RecipeNode* node_;
  QuantFormat format_;
  const std::byte* codes_;
  ir::SourceType type_;
  int64_t rows_, cols_;  // of the codes
  ir::ScaleGrid grid_;
  Blocks scales_, zeros_;
};

}  // namespace kvern::quantize
