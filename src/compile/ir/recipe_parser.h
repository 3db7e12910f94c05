// Reads the `file`, `source` and `weight` lines of a graph's text form.
#pragma once

#include <unordered_map>

#include "compile/ir/graph.h"
#include "compile/ir/text_cursor.h"

namespace kvern::ir {

// "[960, 576]" with positive constants.
Shape parse_shape(TextCursor& cursor);

class RecipeParser {
 public:
  RecipeParser(TextCursor& cursor, Graph& graph) : cursor_(cursor), graph_(graph) {}
  // Reads one line; false where the next word starts none of the three.
  bool parse_line();

 private:
  void parse_file();
  void parse_source();
  void parse_weight();
  QuantFormat parse_storage();
  // Appends the expression's nodes; returns the index of its last one.
  int32_t parse_expression(Recipe& recipe, int depth);
  int32_t parse_source_name(Recipe& recipe);
  void parse_literal(RecipeNode& node);
  void parse_dequantize(Recipe& recipe, int depth, RecipeNode& node);
  // What follows the input of an operation on one input; false where `op` is none.
  bool parse_unary(std::string_view op, Recipe& recipe, int depth, RecipeNode& node);
  int32_t next_count();

  TextCursor& cursor_;
  Graph& graph_;
  std::unordered_map<std::string, int32_t> sources_;
  std::unordered_map<std::string, int32_t> weights_;
};

}  // namespace kvern::ir
