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

  // The family's `name` is the file's tensor `source_name`; false when the file has none.
  // unpermute_heads > 0: the file keeps the rows of so many heads in GGUF's interleaved order.
  bool bind(const std::string& name, const std::string& source_name, int32_t unpermute_heads = 0);
  bool has(const std::string& name) const { return bound_.contains(name); }

  // The value of a weight: one `weight` node per name, made at its first use. Throws
  // Error(kInvalidModel) when the tensor's shape is another one.
  ir::ValueId take(const std::string& name, const Shape& shape);

  // Names of the file's tensors that no bound name was taken for, in the order of the file.
  std::vector<std::string> unused() const;

 private:
  struct Binding {
    int32_t source = 0;
    int32_t unpermute_heads = 0;
    ir::ValueId value;  // once taken
  };

  ir::Graph& graph_;
  std::string who_;
  std::unordered_map<std::string, int32_t> by_source_name_;
  std::unordered_map<std::string, Binding> bound_;
  std::vector<bool> used_;  // by source
};

}  // namespace kvern::import
