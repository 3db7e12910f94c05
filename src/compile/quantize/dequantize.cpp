#include "compile/quantize/dequantize.h"

#include <algorithm>

namespace kvern::quantize {
namespace {

const ir::RecipeNode& input_of(const ir::Recipe& recipe, const ir::RecipeNode& node, size_t i) {
  return recipe.nodes.at(static_cast<size_t>(node.inputs.at(i)));
}

const ir::WeightSource& source_of(const ir::Graph& graph, const ir::RecipeNode& leaf) {
  return graph.sources.at(static_cast<size_t>(leaf.source));
}

// What becomes 0 when it is taken from codes of this type, so that they fit a signed code.
int middle(ir::SourceType type) {
  return ir::is_signed(type) ? 0 : 1 << (ir::code_bits(type) - 1);
}

// The longest group of kernels that ends wherever a block of `block` elements does; -1: none.
int32_t group_of(int64_t block, int64_t k) {
  if (block == 0 || block >= k) return 0;
  for (const int32_t group : {128, 64, 32, 16}) {
    if (block % group == 0) return group;
  }
  return -1;
}

int code_at(ir::SourceType type, const std::byte* data, int64_t index) {
  const int bits = ir::code_bits(type);
  const int per_byte = 8 / bits;
  const int byte = static_cast<int>(data[index / per_byte]);
  const int code = byte >> (index % per_byte * bits) & ((1 << bits) - 1);
  return ir::is_signed(type) && code >> (bits - 1) != 0 ? code - (1 << bits) : code;
}

}  // namespace

std::vector<bool> read_by_dequantize(const ir::Recipe& recipe, bool codes) {
  std::vector<bool> out(recipe.nodes.size(), false);
  for (const ir::RecipeNode& node : recipe.nodes) {
    if (node.op != ir::RecipeOp::kDequantize) continue;
    for (size_t i = codes ? 0 : 1; i < node.inputs.size(); ++i) {
      out.at(static_cast<size_t>(node.inputs[i])) = true;
    }
  }
  return out;
}

QuantFormat dequantized_format(const ir::Graph& graph, const ir::Recipe& recipe,
                               const ir::RecipeNode& node) {
  const ir::WeightSource& codes = source_of(graph, input_of(recipe, node, 0));
  const ir::RecipeNode& scales = input_of(recipe, node, 1);
  const ir::RecipeNode& zeros = input_of(recipe, node, 2);
  const int64_t block = node.transposed ? node.row_block : node.col_block;
  const int64_t k = node.transposed ? codes.shape[0] : node.num_cols;
  const int32_t group = group_of(block, k);
  if (group < 0) return {};
  QuantFormat format;
  format.storage = ir::code_bits(codes.type) == 8 ? DType::kI8 : DType::kI4;
  format.group = group;
  format.has_min = zeros.op != ir::RecipeOp::kLiteral || zeros.values.size() != 1 ||
                   zeros.values[0] != middle(codes.type);
  const bool f16 =
      scales.op == ir::RecipeOp::kSource && source_of(graph, scales).type == ir::SourceType::kF16;
  format.scale = f16 && !format.has_min ? DType::kF16 : DType::kF32;
  return format;
}

Dequantizer::Dequantizer(const ir::Graph& graph, const ir::Recipe& recipe,
                         const ir::RecipeNode& node, const Files& files)
    : node_(&node), format_(dequantized_format(graph, recipe, node)) {
  const ir::WeightSource& codes = source_of(graph, input_of(recipe, node, 0));
  codes_ = files[static_cast<size_t>(codes.file)]->bytes().data() + codes.offset;
  type_ = codes.type;
  rows_ = codes.shape[0];
  cols_ = codes.shape[1];
  grid_ = ir::scale_grid(node, codes.shape);
  scales_ = blocks(1, recipe, graph, files);
  zeros_ = blocks(2, recipe, graph, files);
}

Dequantizer::Blocks Dequantizer::blocks(size_t input, const ir::Recipe& recipe,
                                        const ir::Graph& graph, const Files& files) const {
  const ir::RecipeNode& leaf = input_of(recipe, *node_, input);
  Blocks out;
  out.row_stride = grid_.cols;
  if (leaf.op == ir::RecipeOp::kLiteral) {
    out.values.assign(leaf.values.begin(), leaf.values.end());
    out.one = leaf.values.size() == 1;
    return out;
  }
  const ir::WeightSource& source = source_of(graph, leaf);
  out.data = files[static_cast<size_t>(source.file)]->bytes().data() + source.offset;
  out.type = source.type;
  out.one = kvern::num_elements(source.shape) == 1;
  if (source.shape.size() == 2 && source.shape[0] == grid_.rows) out.row_stride = source.shape[1];
  return out;
}

float Dequantizer::Blocks::at(int64_t row, int64_t col) const {
  const int64_t index = one ? 0 : row * row_stride + col;
  if (data == nullptr) return values[static_cast<size_t>(index)];
  if (ir::is_raw(type)) return static_cast<float>(code_at(type, data, index));
  float value = 0;
  decode_floats(type, data + index * ir::source_type_info(type).block_bytes, 1, &value);
  return value;
}

int Dequantizer::code(int64_t row, int64_t i) const {
  const int64_t index = node_->transposed ? i * cols_ + row : row * cols_ + i;
  return code_at(type_, codes_, index);
}

float Dequantizer::block_value(const Blocks& blocks, int64_t row, int64_t i) const {
  const int64_t r = node_->transposed ? i : row;
  const int64_t c = node_->transposed ? row : i;
  return blocks.at(node_->row_block == 0 ? 0 : r / node_->row_block,
                   node_->col_block == 0 ? 0 : c / node_->col_block);
}

// Scales and zeros change where a block ends, and nowhere else.
void Dequantizer::read(int64_t row, float* to) const {
  const int64_t k = num_elements();
  const int64_t block = node_->transposed ? node_->row_block : node_->col_block;
  const int64_t length = block == 0 ? k : block;
  for (int64_t begin = 0; begin < k; begin += length) {
    const float scale = block_value(scales_, row, begin);
    const float zero = block_value(zeros_, row, begin);
    const int64_t end = std::min(begin + length, k);
    for (int64_t i = begin; i < end; ++i) {
      to[i] = (static_cast<float>(code(row, i)) - zero) * scale;
    }
  }
}

void Dequantizer::codes(int64_t row, const RowCodes& to) const {
  const int64_t k = num_elements();
  // Codes with a minimum: i8 signed, i4 unsigned.
  const int bits = ir::code_bits(type_);
  const int lowest = ir::is_signed(type_) ? -(1 << (bits - 1)) : 0;
  const int shift = !format_.has_min ? middle(type_) : bits == 8 ? lowest + 128 : lowest;
  for (int64_t i = 0; i < k; ++i) to.codes[i] = static_cast<int8_t>(code(row, i) - shift);
  const int64_t group = format_.group == 0 ? k : format_.group;
  for (int64_t g = 0; g < format_.groups(k); ++g) {
    const float scale = block_value(scales_, row, g * group);
    to.scales[g] = scale;
    if (format_.has_min) {
      to.minima[g] = (static_cast<float>(shift) - block_value(zeros_, row, g * group)) * scale;
    }
  }
}

}  // namespace kvern::quantize
