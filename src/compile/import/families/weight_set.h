// The weights of one model by the names that families use ("layers.0.attn.q.weight"), whatever the
// files call them. An importer binds names to tensors of its files; a family's builder takes them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/ir/graph.h"

namespace kvern::import {

class WeightSet {
 public:
  // `sources` become graph.sources. `who` opens messages: "gguf: file 'x.gguf'".
  WeightSet(ir::Graph& graph, std::vector<ir::WeightSource> sources, std::string who);
  // Without files: every bind succeeds, and what is taken becomes a source of the shape asked for,
  // in file 0, with no bytes. For plans whose weights are drawn at load.
  static WeightSet synthetic(ir::Graph& graph, std::string who) {
    WeightSet out(graph, {}, std::move(who));
    out.synthetic_ = true;
    return out;
  }

  bool is_synthetic() const { return synthetic_; }

  // Every bind: the family's `name` is made from the file's tensor `source_name`; false when the
  // file has none. Rows of a vector are its elements.

  // As it is. unpermute_heads > 0: the file keeps the rows of so many heads in GGUF's interleaved
  // order.
  bool bind(const std::string& name, const std::string& source_name, int32_t unpermute_heads = 0);
  // Rows [first_row, first_row + num_rows): a part of a fused tensor.
  bool bind_rows(const std::string& name, const std::string& source_name, int64_t first_row,
                 int64_t num_rows);
  // A matrix of floats kept as [cols, rows]: GPT-2's Conv1D.
  bool bind_transposed(const std::string& name, const std::string& source_name);
  // Rows of the matrix that bind_transposed would make.
  bool bind_transposed_rows(const std::string& name, const std::string& source_name,
                            int64_t first_row, int64_t num_rows);
  // The file keeps rows as [heads][parts][rows of a head]; this takes part `part` of every head:
  // GPT-NeoX's query_key_value has 3 parts.
  bool bind_head_part(const std::string& name, const std::string& source_name, int32_t heads,
                      int32_t parts, int32_t part);
  // A vector plus a constant.
  bool bind_offset(const std::string& name, const std::string& source_name, double offset);

  bool has(const std::string& name) const { return bound_.contains(name); }
  bool has_source(const std::string& source_name) const {
    return synthetic_ || by_source_name_.contains(source_name);
  }

  // The value of a weight: one `weight` node per name, made at its first use. Throws
  // Error(kInvalidModel) when its shape is another one.
  ir::ValueId take(const std::string& name, const Shape& shape);
  // A vector written in the graph itself.
  ir::ValueId literal(const std::string& name, std::vector<double> values);

  // Marks a tensor of the file as used: it was read elsewhere. False when the file has none.
  bool discard(const std::string& source_name);
  // Names of the file's tensors that no bound name was taken for, in the order of the file.
  std::vector<std::string> unused() const;

 private:
  struct Binding {
    int32_t source = 0;
    ir::Recipe recipe;
    ir::ValueId value;  // once taken
  };

  // Binds `steps`, each on the one before, the first on the source.
  bool bind_steps(const std::string& name, const std::string& source_name,
                  std::vector<ir::RecipeNode> steps);
  void draw(const std::string& name, const Shape& shape, Binding& binding);
  Shape made_shape(const std::string& name, const Binding& binding) const;

  ir::Graph& graph_;
  std::string who_;
  std::unordered_map<std::string, int32_t> by_source_name_;
  std::unordered_map<std::string, Binding> bound_;
  std::vector<bool> used_;  // by source
  bool synthetic_ = false;
};

}  // namespace kvern::import
