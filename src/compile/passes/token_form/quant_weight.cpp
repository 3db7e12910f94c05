#include "compile/passes/token_form/quant_weight.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/passes/token_form/provenance.h"
#include "compile/passes/token_form/walk.h"
#include "kvern/error.h"

namespace kvern::passes::token_form {
namespace {

using ir::ElementType;

std::optional<ir::SourceType> raw_type(ElementType type, int bits) {
  if (bits == 2) return ir::SourceType::kU2;
  if (bits == 4) return ir::SourceType::kU4;
  switch (type) {
    case ElementType::kInt8:
      return ir::SourceType::kI8;
    case ElementType::kUint8:
      return ir::SourceType::kU8;
    case ElementType::kInt4:
      return ir::SourceType::kI4;
    case ElementType::kUint4:
      return ir::SourceType::kU4;
    default:
      return std::nullopt;
  }
}

int64_t blocks_of(int64_t count, int64_t block) {
  return block == 0 || count == 0 ? 1 : (count - 1) / block + 1;
}

// Element `index` of packed bytes, low bits first.
float packed_at(const ir::Array& bytes, int64_t index, int bits) {
  const int64_t per_byte = 8 / bits;
  const int byte = bytes.as<uint8_t>()[static_cast<size_t>(index / per_byte)];
  return static_cast<float>(byte >> (index % per_byte * bits) & ((1 << bits) - 1));
}

// The place among the dims that count of axis `axis` of `shape`; nullopt for a dim of 1.
std::optional<int64_t> counting_axis(const Shape& shape, int64_t axis) {
  int64_t place = 0;
  for (int64_t i = 0; i < axis; ++i) place += shape[static_cast<size_t>(i)] != 1 ? 1 : 0;
  if (shape[static_cast<size_t>(axis)] == 1) return std::nullopt;
  return place;
}

Shape without_ones(const Shape& shape) {
  Shape out;
  for (const int64_t dim : shape) {
    if (dim != 1) out.push_back(dim);
  }
  return out;
}

// Numbers beside the codes.
std::optional<ir::Array> beside(Value& value) {
  if (auto array = lying(value)) return array;
  const auto from = provenance_of(value);
  if (from == nullptr || from->scales.has_value()) return std::nullopt;
  return value.known()->at(0);
}

}  // namespace

std::optional<ir::Array> lying(Value& value) {
  const auto from = provenance_of(value);
  if (from == nullptr || from->scales.has_value()) return std::nullopt;
  if (from->transposed && without_ones(from->shape).size() > 1) return std::nullopt;
  return from->source.reshaped(from->shape);
}

CodeMatrix code_matrix(const Provenance& from) {
  CodeMatrix out;
  out.type = raw_type(from.source.type(), from.bits);
  if (from.bits != 0) {
    out.rows = from.shape[0];
    out.num_cols = from.shape[1];
    out.cols = from.source.count() * 8 / from.bits / out.rows;
  } else {
    const Shape& shape = from.source.shape();
    KVERN_CHECK(shape.size() == 2, "codes of shape {}", to_string(shape));
    out.rows = shape[0];
    out.cols = out.num_cols = shape[1];
  }
  if (from.scales->count() > 1) {
    const int64_t along = from.block == 0 ? 1 : from.block;
    const int64_t across = from.block == 0 ? 0 : 1;
    out.row_block = from.axis == 0 ? along : across;
    out.col_block = from.axis == 0 ? across : along;
  }
  out.grid = {blocks_of(out.rows, out.row_block), blocks_of(out.cols, out.col_block)};
  return out;
}

std::vector<float> block_scales(const Provenance& from) {
  return from.scales->to_f32();
}

std::vector<float> block_zeros(const Provenance& from) {
  const CodeMatrix m = code_matrix(from);
  if (!from.zeros.has_value()) return {0.0f};
  const bool packed = from.bits != 0 && from.bits != 8 && from.zeros->type() == ElementType::kUint8;
  if (!packed) return from.zeros->to_f32();
  const int64_t per_byte = 8 / from.bits;
  const int64_t stride = (m.grid.cols + per_byte - 1) / per_byte * per_byte;
  std::vector<float> out;
  for (int64_t row = 0; row < m.grid.rows; ++row) {
    for (int64_t col = 0; col < m.grid.cols; ++col) {
      out.push_back(packed_at(*from.zeros, row * stride + col, from.bits));
    }
  }
  return out;
}

std::vector<float> dequantised(const Provenance& from) {
  const CodeMatrix m = code_matrix(from);
  const std::vector<float> scales = block_scales(from), zeros = block_zeros(from);
  const bool packed = from.bits != 0 && from.bits != 8;
  const std::vector<float> codes = packed ? std::vector<float>() : from.source.to_f32();
  std::vector<float> out;
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t col = 0; col < m.num_cols; ++col) {
      const int64_t index = row * m.cols + col;
      const float code =
          packed ? packed_at(from.source, index, from.bits) : codes[static_cast<size_t>(index)];
      const int64_t block_row = m.row_block == 0 ? 0 : row / m.row_block;
      const int64_t block_col = m.col_block == 0 ? 0 : col / m.col_block;
      const auto block = static_cast<size_t>(block_row * m.grid.cols + block_col);
      const float scale = scales[scales.size() == 1 ? 0 : block];
      out.push_back((code - zeros[zeros.size() == 1 ? 0 : block]) * scale);
    }
  }
  return out;
}

std::shared_ptr<const Provenance> dequantised_weight(const RuleCall& call) {
  if (call.node.op != "DequantizeLinear" || call.inputs.size() < 2 || !call.has(0)) return nullptr;
  const auto codes = provenance_of(call.in(0));
  if (codes == nullptr || codes->scales.has_value() || !raw_type(codes->source.type(), 0)) {
    return nullptr;
  }
  const Shape dims = without_ones(codes->shape);
  if (dims.size() != 2 || num_elements(dims) == 0) return nullptr;
  auto out = std::make_shared<Provenance>(*codes);
  out->source = codes->source.reshaped(codes->transposed ? Shape{dims[1], dims[0]} : dims);
  out->scales = beside(call.in(1));
  if (!out->scales || !ir::is_float(out->scales->type())) return nullptr;
  if (call.has(2)) {
    out->zeros = beside(call.in(2));
    if (!out->zeros || out->zeros->count() != out->scales->count()) return nullptr;
  }
  if (out->scales->count() == 1) return out;
  const auto rank = static_cast<int64_t>(codes->shape.size());
  int64_t axis = call.node.i("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return nullptr;
  const std::optional<int64_t> place = counting_axis(codes->shape, axis);
  if (!place) return nullptr;
  out->axis = codes->transposed ? 1 - *place : *place;
  out->block = call.node.i("block_size", 0);
  // Blocks of turned codes are turned themselves: they are evaluated.
  if (out->block < 0 || (out->block > 0 && codes->transposed)) return nullptr;
  const CodeMatrix m = code_matrix(*out);
  if (out->scales->count() != m.grid.rows * m.grid.cols) return nullptr;
  return out;
}

std::shared_ptr<const Provenance> plain_codes(const Provenance& from, ir::Array zeros) {
  const Shape dims = without_ones(from.shape);
  if (from.scales.has_value() || dims.size() != 2 || num_elements(dims) == 0 ||
      !raw_type(from.source.type(), 0)) {
    return nullptr;
  }
  auto out = std::make_shared<Provenance>(from);
  out->source = from.source.reshaped(from.transposed ? Shape{dims[1], dims[0]} : dims);
  out->scales = ir::Array::scalar_f32(1);
  out->zeros = std::move(zeros);
  return out;
}

}  // namespace kvern::passes::token_form
