// Graphs of quantised constants that lie in a file, for tests of their conversion.
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compile/ir/tensor_graph.h"
#include "compile/quantize/materialize.h"

namespace kvern::passes {

// Constants lie in a file, 4-bit ones two a byte.
class QuantGraph {
 public:
  // Random codes from `low` to `high`.
  QuantGraph& codes(const std::string& name, ir::ElementType type, const Shape& shape, int low,
                    int high);
  QuantGraph& floats(const std::string& name, const Shape& shape, float low, float high);
  QuantGraph& constant(const std::string& name, ir::Array array);
  // Constants stay in memory only, as where they were typed data.
  QuantGraph& without_file();

  // `text` makes %made [batch, seq, 24] of %input_ids and, where `embedded`, of %x [batch, seq,
  // 32]; an attention over it makes it a decoder.
  void graph(const std::string& text, bool embedded = true);

  ir::TensorModel model;
  quantize::Files files;

 private:
  std::mt19937 random_{5};
  bool in_file_ = true;
  std::vector<std::pair<std::string, ir::Array>> constants_;
};

}  // namespace kvern::passes
