#include "compile/ir/recipe.h"

#include <cmath>

#include "base/check.h"
#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

constexpr QuantFormat stored(DType storage) {
  return {.storage = storage};
}
constexpr QuantFormat coded(DType codes, int32_t group, DType scale, bool has_min) {
  return {codes, group, scale, has_min};
}

// K-quants keep f32 scales: they are products of an f16 and a 6-bit integer (8-bit in Q6_K), which
// f16 cannot hold.
constexpr SourceTypeInfo kSourceTypes[] = {
    {SourceType::kF32, "F32", 1, 4, stored(DType::kF32)},
    {SourceType::kF16, "F16", 1, 2, stored(DType::kF16)},
    {SourceType::kBf16, "BF16", 1, 2, stored(DType::kBf16)},
    {SourceType::kQ8_0, "Q8_0", 32, 34, coded(DType::kI8, 32, DType::kF16, false)},
    {SourceType::kQ4_0, "Q4_0", 32, 18, coded(DType::kI4, 32, DType::kF16, false)},
    {SourceType::kQ4_1, "Q4_1", 32, 20, coded(DType::kI4, 32, DType::kF16, true)},
    {SourceType::kQ5_0, "Q5_0", 32, 22, coded(DType::kI8, 32, DType::kF16, false)},
    {SourceType::kQ5_1, "Q5_1", 32, 24, coded(DType::kI8, 32, DType::kF16, true)},
    {SourceType::kQ4_K, "Q4_K", 256, 144, coded(DType::kI4, 32, DType::kF32, true)},
    {SourceType::kQ5_K, "Q5_K", 256, 176, coded(DType::kI8, 32, DType::kF32, true)},
    {SourceType::kQ6_K, "Q6_K", 256, 210, coded(DType::kI8, 16, DType::kF32, false)},
    // What holds raw codes depends on their scales: quantize/dequantize.h.
    {SourceType::kI8, "I8", 1, 1, coded(DType::kI8, 0, DType::kF32, true)},
    {SourceType::kU8, "U8", 1, 1, coded(DType::kI8, 0, DType::kF32, true)},
    {SourceType::kI4, "I4", 2, 1, coded(DType::kI4, 0, DType::kF32, true)},
    {SourceType::kU4, "U4", 2, 1, coded(DType::kI4, 0, DType::kF32, true)},
    {SourceType::kU2, "U2", 4, 1, coded(DType::kI4, 0, DType::kF32, true)},
};

Shape concat_shape(const RecipeNode& node, const std::vector<Shape>& shapes) {
  want(!node.inputs.empty(), "recipe: a concat of nothing");
  Shape out = shapes[static_cast<size_t>(node.inputs[0])];
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape& next = shapes[static_cast<size_t>(node.inputs[i])];
    want(next.size() == out.size() && (out.size() == 1 || next[1] == out[1]),
         "recipe: rows of {} cannot be appended to {}", to_string(next), to_string(out));
    out[0] += next[0];
    want_weight_shape(out, "concat");
  }
  return out;
}

Shape moved_shape(const RecipeNode& node, Shape in) {
  switch (node.op) {
    case RecipeOp::kUnpermute:
      want(node.heads > 0 && in[0] % (2 * int64_t{node.heads}) == 0,
           "recipe: {} rows are not {} heads of an even size", in[0], node.heads);
      break;
    case RecipeOp::kSliceRows:
      want(node.num_rows > 0 && node.first_row >= 0 && node.first_row <= in[0] - node.num_rows,
           "recipe: {} rows from row {} are not among {}", node.num_rows, node.first_row, in[0]);
      break;
    case RecipeOp::kStridedRows:
      want(node.heads > 0 && in[0] % node.heads == 0 && node.num_rows > 0 && node.first_row >= 0 &&
               node.first_row <= in[0] / node.heads - node.num_rows,
           "recipe: {} rows have no {} from {} on in each of {} periods", in[0], node.num_rows,
           node.first_row, node.heads);
      break;
    case RecipeOp::kPickRows:
      want(!node.values.empty(), "recipe: no rows are picked");
      for (const double row : node.values) {
        want(row >= 0 && row < static_cast<double>(in[0]) && row == std::floor(row),
             "recipe: row {} is not among {}", row, in[0]);
      }
      break;
    default:
      want(node.heads > 0 && node.part >= 0 && node.part < node.parts &&
               in[0] % (int64_t{node.heads} * node.parts) == 0,
           "recipe: {} rows have no part {} of {} in each of {} heads", in[0], node.part,
           node.parts, node.heads);
      break;
  }
  in[0] = num_moved_rows(node, in[0]);
  return in;
}

const Shape& only_input(const RecipeNode& node, const std::vector<Shape>& shapes) {
  want(node.inputs.size() == 1, "recipe: an operation on one input has {}", node.inputs.size());
  return shapes[static_cast<size_t>(node.inputs[0])];
}

void want_per_block(const Shape& shape, const ScaleGrid& grid, const char* what) {
  const bool rows = shape.size() == 2 && shape[0] == grid.rows && shape[1] >= grid.cols;
  want(rows || num_elements(shape) == 1 || num_elements(shape) == grid.rows * grid.cols,
       "recipe: {} of {} are not one for each of {} x {} blocks", what, to_string(shape), grid.rows,
       grid.cols);
}

Shape dequantized_shape(const RecipeNode& node, const std::vector<Shape>& shapes) {
  want(node.inputs.size() == 3, "recipe: dequantize takes codes, scales and zeros");
  const auto input = [&](size_t i) { return shapes[static_cast<size_t>(node.inputs[i])]; };
  const Shape& codes = input(0);
  want(codes.size() == 2 && node.num_cols > 0 && node.num_cols <= codes[1],
       "recipe: codes of {} have no {} columns", to_string(codes), node.num_cols);
  want(node.row_block >= 0 && node.col_block >= 0, "recipe: blocks of {} x {} codes",
       node.row_block, node.col_block);
  const ScaleGrid grid = scale_grid(node, codes);
  want_per_block(input(1), grid, "scales");
  want_per_block(input(2), grid, "zeros");
  if (node.transposed) return {node.num_cols, codes[0]};
  return {codes[0], node.num_cols};
}

Shape node_shape(const RecipeNode& node, const std::vector<Shape>& shapes,
                 const std::vector<WeightSource>& sources, const Shape& literal_shape) {
  switch (node.op) {
    case RecipeOp::kSource:
      want(node.source >= 0 && static_cast<size_t>(node.source) < sources.size(),
           "recipe: source {} of {} does not exist", node.source, sources.size());
      return sources[static_cast<size_t>(node.source)].shape;
    case RecipeOp::kConcatRows:
      return concat_shape(node, shapes);
    case RecipeOp::kUnpermute:
    case RecipeOp::kSliceRows:
    case RecipeOp::kHeadPart:
    case RecipeOp::kStridedRows:
    case RecipeOp::kPickRows:
      return moved_shape(node, only_input(node, shapes));
    case RecipeOp::kTranspose: {
      const Shape& in = only_input(node, shapes);
      want(in.size() == 2, "recipe: {} has no transpose", to_string(in));
      return {in[1], in[0]};
    }
    case RecipeOp::kOffset: {
      const Shape& in = only_input(node, shapes);
      want(in.size() == 1 && node.values.size() == 1,
           "recipe: an offset is one value for a vector, got {} values for {}", node.values.size(),
           to_string(in));
      return in;
    }
    case RecipeOp::kDequantize:
      return dequantized_shape(node, shapes);
    case RecipeOp::kLiteral: {
      const auto count = static_cast<int64_t>(node.values.size());
      want(count > 0, "recipe: a literal without values");
      return num_elements(literal_shape) == count ? literal_shape : Shape{count};
    }
  }
  throw Error(Code::kInvalidModel, "recipe: unknown operation");
}

// What a literal among the inputs of a concat holds of a weight of `shape`: some of its rows.
Shape literal_rows(const RecipeNode& node, const Shape& shape) {
  const auto count = static_cast<int64_t>(node.values.size());
  if (shape.size() != 2 || shape[1] <= 0 || count % shape[1] != 0) return shape;
  return {count / shape[1], shape[1]};
}

// Columns of block formats cannot be cut out, and nothing else needs them.
void want_float_source(const RecipeNode& node, const std::vector<WeightSource>& sources) {
  want(node.op == RecipeOp::kSource &&
           !source_type_info(sources[static_cast<size_t>(node.source)].type).exact.quantised(),
       "recipe: only a source of floats can be transposed");
}

// Raw codes mean nothing without their scales, and nothing else is dequantised.
void want_raw_inputs(const Recipe& recipe, const std::vector<WeightSource>& sources) {
  std::vector<int> place(recipe.nodes.size(), -1);  // which input of a kDequantize it is
  for (const RecipeNode& node : recipe.nodes) {
    if (node.op != RecipeOp::kDequantize) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      place[static_cast<size_t>(node.inputs[i])] = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < recipe.nodes.size(); ++i) {
    const RecipeNode& node = recipe.nodes[i];
    if (node.op != RecipeOp::kSource) {
      want(place[i] <= 0 ? place[i] < 0 : node.op == RecipeOp::kLiteral,
           "recipe: dequantize reads tensors of the file as they are");
      continue;
    }
    const SourceType type = sources[static_cast<size_t>(node.source)].type;
    const bool floats = !source_type_info(type).exact.quantised();
    const bool right = place[i] < 0    ? !is_raw(type)
                       : place[i] == 0 ? is_raw(type)
                       : place[i] == 1 ? floats
                                       : floats || is_raw(type);
    want(right, "recipe: source '{}' of {} stands where another type is wanted",
         sources[static_cast<size_t>(node.source)].name, source_type_info(type).name);
  }
}

}  // namespace

int code_bits(SourceType type) {
  return 8 / source_type_info(type).block_elements;
}

ScaleGrid scale_grid(const RecipeNode& node, const Shape& codes) {
  const auto blocks = [](int64_t count, int64_t block) {
    return block == 0 ? 1 : (count - 1) / block + 1;
  };
  return {blocks(codes[0], node.row_block), blocks(codes[1], node.col_block)};
}

const SourceTypeInfo& source_type_info(SourceType type) {
  for (const SourceTypeInfo& info : kSourceTypes) {
    if (info.type == type) return info;
  }
  KVERN_CHECK(false, "source type {} is not in the table", static_cast<int>(type));
}

std::optional<SourceType> source_type_from_name(std::string_view name) {
  for (const SourceTypeInfo& info : kSourceTypes) {
    if (name == info.name) return info.type;
  }
  return std::nullopt;
}

Shape recipe_shape(const Recipe& recipe, const std::vector<WeightSource>& sources,
                   const Shape& literal_shape) {
  want(!recipe.nodes.empty(), "recipe: empty");
  std::vector<Shape> shapes;
  std::vector<int> uses(recipe.nodes.size(), 0);
  std::vector<bool> joined(recipe.nodes.size(), false);
  for (const RecipeNode& node : recipe.nodes) {
    if (node.op != RecipeOp::kConcatRows) continue;
    for (const int32_t input : node.inputs) {
      if (input >= 0 && static_cast<size_t>(input) < joined.size()) joined[input] = true;
    }
  }
  for (size_t i = 0; i < recipe.nodes.size(); ++i) {
    for (const int32_t input : recipe.nodes[i].inputs) {
      want(input >= 0 && static_cast<size_t>(input) < i,
           "recipe: node {} reads node {}, which is not before it", i, input);
      ++uses[static_cast<size_t>(input)];
    }
    const RecipeNode& node = recipe.nodes[i];
    shapes.push_back(node_shape(node, shapes, sources,
                                joined[i] ? literal_rows(node, literal_shape) : literal_shape));
    if (recipe.nodes[i].op == RecipeOp::kTranspose) {
      want_float_source(recipe.nodes[static_cast<size_t>(recipe.nodes[i].inputs[0])], sources);
    }
  }
  want_raw_inputs(recipe, sources);
  for (size_t i = 0; i < uses.size(); ++i) {
    want(uses[i] == (i + 1 == uses.size() ? 0 : 1),
         "recipe: node {} has {} readers; every node but the last has one", i, uses[i]);
  }
  return shapes.back();
}

bool moves_rows(RecipeOp op) {
  return op == RecipeOp::kUnpermute || op == RecipeOp::kSliceRows || op == RecipeOp::kHeadPart ||
         op == RecipeOp::kStridedRows || op == RecipeOp::kPickRows;
}

int64_t num_moved_rows(const RecipeNode& node, int64_t input_rows) {
  if (node.op == RecipeOp::kSliceRows) return node.num_rows;
  if (node.op == RecipeOp::kStridedRows) return node.heads * node.num_rows;
  if (node.op == RecipeOp::kPickRows) return static_cast<int64_t>(node.values.size());
  return node.op == RecipeOp::kHeadPart ? input_rows / node.parts : input_rows;
}

int64_t moved_row(const RecipeNode& node, int64_t row, int64_t input_rows) {
  if (node.op == RecipeOp::kSliceRows) return node.first_row + row;
  if (node.op == RecipeOp::kPickRows) {
    return static_cast<int64_t>(node.values[static_cast<size_t>(row)]);
  }
  if (node.op == RecipeOp::kStridedRows) {
    const int64_t period = input_rows / node.heads;
    return row / node.num_rows * period + node.first_row + row % node.num_rows;
  }
  const int64_t dim = num_moved_rows(node, input_rows) / node.heads;
  const int64_t in_head = row % dim;
  if (node.op == RecipeOp::kHeadPart) {
    return (row / dim * node.parts + node.part) * dim + in_head;
  }
  const int64_t half = dim / 2;
  return row - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

}  // namespace kvern::ir
