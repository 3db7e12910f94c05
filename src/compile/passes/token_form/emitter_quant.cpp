// Weights of codes with scales, as recipes over the file's own bytes.
#include <fmt/format.h>

#include <algorithm>

#include "compile/passes/token_form/emitter.h"
#include "compile/passes/token_form/quant_weight.h"

namespace kvern::passes::token_form {
namespace {

bool in_file(const ir::Array& array) {
  return array.origin().has_value();
}

ir::RecipeNode literal_node(const std::vector<float>& values) {
  ir::RecipeNode node;
  node.op = ir::RecipeOp::kLiteral;
  const bool one =
      std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; });
  node.values.assign(values.begin(), one ? values.begin() + 1 : values.end());
  return node;
}

}  // namespace

bool Emitter::stays_quantised(const Provenance& from) {
  if (!from.scales.has_value() || !in_file(from.source)) return false;
  const CodeMatrix m = code_matrix(from);
  // Rows of codes are whole bytes; scales that are no source are written into the graph.
  if (!m.type || m.cols % ir::source_type_info(*m.type).block_elements != 0) return false;
  const auto written = [](const ir::Array& array) { return array.count() <= kMaxLiteralElements; };
  const bool scales =
      written(*from.scales) || (in_file(*from.scales) && float_source(from.scales->type()));
  const bool zeros = !from.zeros || written(*from.zeros) || in_file(*from.zeros);
  return scales && zeros;
}

int32_t Emitter::raw_source(const ir::Array& array, ir::SourceType type, const Shape& shape) {
  const ir::ArrayOrigin& origin = *array.origin();
  const std::string key = fmt::format("{}@{}:{}/{}/{}", origin.name, origin.file, origin.offset,
                                      static_cast<int>(type), to_string(shape));
  const auto [at, is_new] = sources_.emplace(key, static_cast<int32_t>(graph.sources.size()));
  if (!is_new) return at->second;
  ir::WeightSource source;
  source.name = origin.name;
  source.file = origin.file;
  source.offset = origin.offset;
  const ir::SourceTypeInfo& info = ir::source_type_info(type);
  source.bytes =
      static_cast<uint64_t>(num_elements(shape) / info.block_elements * info.block_bytes);
  source.type = type;
  source.shape = shape;
  graph.sources.push_back(std::move(source));
  return at->second;
}

// Scales of a weight: a source of floats, or a literal.
ir::RecipeNode Emitter::scale_node(const Provenance& from) {
  const ir::Array& scales = *from.scales;
  const std::optional<ir::SourceType> type = float_source(scales.type());
  if (scales.count() == 1 || !in_file(scales) || !type) return literal_node(block_scales(from));
  ir::RecipeNode node;
  node.source = raw_source(scales, *type, {scales.count()});
  return node;
}

// Zero points: a literal where they are all one number, as they mostly are.
ir::RecipeNode Emitter::zero_node(const Provenance& from) {
  ir::RecipeNode node = literal_node(block_zeros(from));
  if (node.values.size() == 1 || !in_file(*from.zeros)) return node;
  const ir::Array& zeros = *from.zeros;
  const CodeMatrix m = code_matrix(from);
  ir::RecipeNode source;
  const bool raw =
      zeros.type() == ir::ElementType::kUint8 || zeros.type() == ir::ElementType::kInt8;
  if (const auto type = float_source(zeros.type())) {
    source.source = raw_source(zeros, *type, {zeros.count()});
  } else if (from.bits != 0 && raw) {
    const Shape shape = {m.grid.rows, zeros.count() * 8 / from.bits / m.grid.rows};
    source.source = raw_source(zeros, *m.type, shape);
  } else if (raw) {
    const bool is_signed = zeros.type() == ir::ElementType::kInt8;
    source.source =
        raw_source(zeros, is_signed ? ir::SourceType::kI8 : ir::SourceType::kU8, {zeros.count()});
  } else {
    return node;
  }
  return source;
}

ir::Recipe Emitter::quantised_recipe(const Provenance& from) {
  const CodeMatrix m = code_matrix(from);
  ir::Recipe recipe;
  ir::RecipeNode codes;
  codes.source = raw_source(from.source, *m.type, {m.rows, m.cols});
  recipe.nodes = {codes, scale_node(from), zero_node(from)};
  ir::RecipeNode made;
  made.op = ir::RecipeOp::kDequantize;
  made.inputs = {0, 1, 2};
  made.row_block = m.row_block;
  made.col_block = m.col_block;
  made.num_cols = m.num_cols;
  made.transposed = from.transposed;
  recipe.nodes.push_back(std::move(made));
  return recipe;
}

}  // namespace kvern::passes::token_form
