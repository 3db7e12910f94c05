// The text form of a graph: one weight or node a line.
//
//   %q, %k, %v = split(%qkv) {sizes = [576, 192, 192]} : f32[tokens, 576], …
#include <fmt/format.h>

#include "base/check.h"
#include "base/quoted.h"
#include "compile/ir/graph.h"
#include "compile/ir/text_cursor.h"

namespace kvern::ir {
namespace {

std::string print_expression(const Graph& graph, const Recipe& recipe, size_t index) {
  const RecipeNode& node = recipe.nodes.at(index);
  std::vector<std::string> parts;
  for (const int32_t input : node.inputs) {
    KVERN_CHECK(input >= 0 && static_cast<size_t>(input) < index, "recipe is out of order");
    parts.push_back(print_expression(graph, recipe, static_cast<size_t>(input)));
  }
  switch (node.op) {
    case RecipeOp::kSource:
      return quote(graph.sources.at(static_cast<size_t>(node.source)).name);
    case RecipeOp::kConcatRows:
      return fmt::format("concat_rows({})", fmt::join(parts, ", "));
    case RecipeOp::kUnpermute:
      return fmt::format("unpermute({}, {})", fmt::join(parts, ", "), node.heads);
    case RecipeOp::kSliceRows:
      return fmt::format("slice_rows({}, {}, {})", fmt::join(parts, ", "), node.first_row,
                         node.num_rows);
    case RecipeOp::kHeadPart:
      return fmt::format("head_part({}, {}, {}, {})", fmt::join(parts, ", "), node.heads,
                         node.parts, node.part);
    case RecipeOp::kStridedRows:
      return fmt::format("strided_rows({}, {}, {}, {})", fmt::join(parts, ", "), node.heads,
                         node.first_row, node.num_rows);
    case RecipeOp::kPickRows:
      for (const double row : node.values) parts.push_back(fmt::format("{}", row));
      return fmt::format("pick_rows({})", fmt::join(parts, ", "));
    case RecipeOp::kDequantize:
      return fmt::format("dequantize({}, {}, {}, {}{})", fmt::join(parts, ", "), node.row_block,
                         node.col_block, node.num_cols, node.transposed ? ", transposed" : "");
    case RecipeOp::kTranspose:
      return fmt::format("transpose({})", fmt::join(parts, ", "));
    case RecipeOp::kOffset:
      return fmt::format("offset({}, {})", fmt::join(parts, ", "),
                         static_cast<float>(node.values.at(0)));
    case RecipeOp::kLiteral:
      // The values are f32: their shortest f32 form is exact and short.
      for (const double value : node.values) {
        parts.push_back(fmt::format("{}", static_cast<float>(value)));
      }
      return fmt::format("literal({})", fmt::join(parts, ", "));
  }
  KVERN_CHECK(false, "recipe operation {} has no text form", static_cast<int>(node.op));
}

void print_recipes_to(const Graph& graph, std::string& out) {
  for (const std::string& file : graph.files) out += fmt::format("  file {}\n", quote(file));
  for (const WeightSource& s : graph.sources) {
    out +=
        fmt::format("  source {} {}{} file {} at {} bytes {}\n", quote(s.name),
                    source_type_info(s.type).name, to_string(s.shape), s.file, s.offset, s.bytes);
  }
  for (const Weight& w : graph.weights) {
    KVERN_CHECK(!w.recipe.nodes.empty(), "weight '{}' has no recipe", w.name);
    out += fmt::format("  weight {} f32{} store {} = {}\n", quote(w.name), to_string(w.shape),
                       to_string(w.storage),
                       print_expression(graph, w.recipe, w.recipe.nodes.size() - 1));
  }
}

std::string print_values(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids)
    names.push_back(fmt::format("%{}", print_name(graph.value(id).name)));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string print_attrs(const Node& node) {
  const std::vector<NamedField> fields = node.attrs.fields();
  const std::vector<NamedField> standard = node.op->default_attrs().fields();
  std::vector<NamedField> shown;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != standard[i]) shown.push_back(fields[i]);
  }
  return shown.empty() ? std::string() : fmt::format(" {}", print_fields(shown));
}

void print_node(const Graph& graph, const Node& node, std::string& out) {
  out += "  ";
  if (!node.outputs.empty()) out += print_values(graph, node.outputs) + " = ";
  out +=
      fmt::format("{}({}){}", node.op->name, print_values(graph, node.inputs), print_attrs(node));
  if (!node.source_name.empty()) out += fmt::format(" from {}", quote(node.source_name));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    out += (i == 0 ? " : " : ", ") + to_string(graph.value(node.outputs[i]).type);
  }
  out += '\n';
}

}  // namespace

std::string print_recipes(const Graph& graph) {
  std::string out;
  print_recipes_to(graph, out);
  return out;
}

std::string print(const Graph& graph) {
  std::string out = fmt::format("graph {} {{\n", quote(graph.family));
  print_recipes_to(graph, out);
  for (const Node& node : graph.nodes()) print_node(graph, node, out);
  return out + "}\n";
}

}  // namespace kvern::ir
