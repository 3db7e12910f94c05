#include "compile/ir/recipe_parser.h"

#include <fmt/format.h>

#include <limits>

#include "compile/ir/type_rules.h"

namespace kvern::ir {
namespace {

constexpr int kMaxDepth = 16;  // recipes of the importers nest 2 deep

int32_t checked_index(TextCursor& cursor, int64_t limit, std::string_view what) {
  const size_t at = cursor.position();
  const int64_t value = cursor.integer();
  if (value < 0 || value >= limit) {
    cursor.fail_at(at, fmt::format("{} {} is outside [0, {})", what, value, limit));
  }
  return static_cast<int32_t>(value);
}

uint64_t natural(TextCursor& cursor) {
  const size_t at = cursor.position();
  const int64_t value = cursor.integer();
  if (value < 0) cursor.fail_at(at, fmt::format("{} must not be negative", value));
  return static_cast<uint64_t>(value);
}

DType parse_dtype(TextCursor& cursor) {
  const size_t at = cursor.position();
  const auto dtype = dtype_from_name(cursor.word());
  if (!dtype) cursor.fail_at(at, "expected a dtype, such as f32 or i8");
  return *dtype;
}

}  // namespace

Shape parse_shape(TextCursor& cursor) {
  const size_t at = cursor.position();
  Shape shape;
  cursor.expect('[');
  do shape.push_back(cursor.integer());
  while (cursor.accept(','));
  cursor.expect(']');
  try {
    want_weight_shape(shape, "");
  } catch (const Error& error) {
    cursor.fail_at(at, error.what());
  }
  return shape;
}

bool RecipeParser::parse_line() {
  if (cursor_.accept_word("file"))
    parse_file();
  else if (cursor_.accept_word("source"))
    parse_source();
  else if (cursor_.accept_word("weight"))
    parse_weight();
  else
    return false;
  return true;
}

void RecipeParser::parse_file() {
  graph_.files.push_back(cursor_.quoted());
}

void RecipeParser::parse_source() {
  const size_t at = cursor_.position();
  WeightSource source;
  source.name = cursor_.quoted();
  const auto index = static_cast<int32_t>(graph_.sources.size());
  if (!sources_.emplace(source.name, index).second) {
    cursor_.fail_at(at, fmt::format("source '{}' is there twice", source.name));
  }
  const size_t type_at = cursor_.position();
  const auto type = source_type_from_name(cursor_.word());
  if (!type) cursor_.fail_at(type_at, "expected a source type, such as F32 or Q4_K");
  source.type = *type;
  source.shape = parse_shape(cursor_);
  cursor_.expect_word("file");
  source.file = checked_index(cursor_, static_cast<int64_t>(graph_.files.size()), "file");
  cursor_.expect_word("at");
  source.offset = natural(cursor_);
  cursor_.expect_word("bytes");
  source.bytes = natural(cursor_);
  graph_.sources.push_back(std::move(source));
}

QuantFormat RecipeParser::parse_storage() {
  QuantFormat format;
  format.storage = parse_dtype(cursor_);
  if (!format.quantised()) return format;
  const size_t at = cursor_.position();
  const std::string_view group = cursor_.word();
  if (group != "row") {
    TextCursor digits(group.substr(1));
    if (group[0] != 'g') cursor_.fail_at(at, "expected a group: row, g16, g32, g64 or g128");
    format.group = checked_index(digits, 4096, "group");
    if (format.group == 0 || digits.peek() != '\0') cursor_.fail_at(at, "expected a group: g32");
  }
  format.scale = parse_dtype(cursor_);
  format.has_min = cursor_.accept_word("min");
  return format;
}

void RecipeParser::parse_weight() {
  const size_t at = cursor_.position();
  Weight weight;
  weight.name = cursor_.quoted();
  const auto index = static_cast<int32_t>(graph_.weights.size());
  if (!weights_.emplace(weight.name, index).second) {
    cursor_.fail_at(at, fmt::format("weight '{}' is there twice", weight.name));
  }
  cursor_.expect_word("f32");
  weight.shape = parse_shape(cursor_);
  cursor_.expect_word("store");
  weight.storage = parse_storage();
  cursor_.expect('=');
  parse_expression(weight.recipe, 0);
  Shape made;
  try {
    made = recipe_shape(weight.recipe, graph_.sources, weight.shape);
  } catch (const Error& error) {
    cursor_.fail_at(at, error.what());
  }
  if (made != weight.shape) {
    cursor_.fail_at(at, fmt::format("weight '{}' is {}, its recipe makes {}", weight.name,
                                    to_string(weight.shape), to_string(made)));
  }
  graph_.weights.push_back(std::move(weight));
}

int32_t RecipeParser::parse_source_name(Recipe& recipe) {
  const size_t at = cursor_.position();
  const auto found = sources_.find(cursor_.quoted());
  if (found == sources_.end()) cursor_.fail_at(at, "no source line has this name");
  RecipeNode node;
  node.source = found->second;
  recipe.nodes.push_back(node);
  return static_cast<int32_t>(recipe.nodes.size()) - 1;
}

void RecipeParser::parse_literal(RecipeNode& node) {
  node.op = RecipeOp::kLiteral;
  do node.values.push_back(static_cast<float>(cursor_.real()));
  while (cursor_.accept(','));
}

int32_t RecipeParser::next_count() {
  cursor_.expect(',');
  return checked_index(cursor_, std::numeric_limits<int32_t>::max(), "count");
}

bool RecipeParser::parse_unary(std::string_view op, Recipe& recipe, int depth, RecipeNode& node) {
  if (op == "unpermute")
    node.op = RecipeOp::kUnpermute;
  else if (op == "slice_rows")
    node.op = RecipeOp::kSliceRows;
  else if (op == "head_part")
    node.op = RecipeOp::kHeadPart;
  else if (op == "strided_rows")
    node.op = RecipeOp::kStridedRows;
  else if (op == "pick_rows")
    node.op = RecipeOp::kPickRows;
  else if (op == "transpose")
    node.op = RecipeOp::kTranspose;
  else if (op == "offset")
    node.op = RecipeOp::kOffset;
  else
    return false;
  node.inputs.push_back(parse_expression(recipe, depth + 1));
  if (node.op == RecipeOp::kUnpermute || node.op == RecipeOp::kHeadPart) node.heads = next_count();
  if (node.op == RecipeOp::kHeadPart) {
    node.parts = next_count();
    node.part = next_count();
  }
  if (node.op == RecipeOp::kStridedRows) node.heads = next_count();
  if (node.op == RecipeOp::kPickRows) {
    do node.values.push_back(next_count());
    while (cursor_.peek() == ',');
  }
  if (node.op == RecipeOp::kSliceRows || node.op == RecipeOp::kStridedRows) {
    node.first_row = next_count();
    node.num_rows = next_count();
  }
  if (node.op == RecipeOp::kOffset) {
    cursor_.expect(',');
    node.values.push_back(static_cast<float>(cursor_.real()));
  }
  return true;
}

void RecipeParser::parse_dequantize(Recipe& recipe, int depth, RecipeNode& node) {
  node.op = RecipeOp::kDequantize;
  for (int i = 0; i < 3; ++i) {
    if (i > 0) cursor_.expect(',');
    node.inputs.push_back(parse_expression(recipe, depth + 1));
  }
  node.row_block = next_count();
  node.col_block = next_count();
  node.num_cols = next_count();
  if (!cursor_.accept(',')) return;
  cursor_.expect_word("transposed");
  node.transposed = true;
}

int32_t RecipeParser::parse_expression(Recipe& recipe, int depth) {
  if (depth > kMaxDepth) cursor_.fail("recipes nest no deeper than 16");
  if (cursor_.peek() == '"') return parse_source_name(recipe);
  const size_t at = cursor_.position();
  const std::string_view op = cursor_.word();
  RecipeNode node;
  cursor_.expect('(');
  if (op == "concat_rows") {
    node.op = RecipeOp::kConcatRows;
    do node.inputs.push_back(parse_expression(recipe, depth + 1));
    while (cursor_.accept(','));
  } else if (op == "literal") {
    parse_literal(node);
  } else if (op == "dequantize") {
    parse_dequantize(recipe, depth, node);
  } else if (!parse_unary(op, recipe, depth, node)) {
    cursor_.fail_at(
        at,
        "expected concat_rows, unpermute, slice_rows, head_part, strided_rows, pick_rows, "
        "transpose, offset, dequantize, literal or a quoted source");
  }
  cursor_.expect(')');
  recipe.nodes.push_back(std::move(node));
  return static_cast<int32_t>(recipe.nodes.size()) - 1;
}

void parse_recipes(std::string_view text, Graph& graph) {
  TextCursor cursor(text);
  Graph read;
  RecipeParser parser(cursor, read);
  while (cursor.peek() != '\0') {
    if (!parser.parse_line()) cursor.fail("expected file, source or weight");
  }
  graph.files = std::move(read.files);
  graph.sources = std::move(read.sources);
  graph.weights = std::move(read.weights);
}

}  // namespace kvern::ir
