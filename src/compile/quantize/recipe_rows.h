// A weight row by row, as its recipe makes it from the source files. Recipes of matrices only move
// rows (and columns of floats), so that nothing but the row asked for is ever decoded.
#pragma once

#include <vector>

#include "compile/quantize/dequantize.h"

namespace kvern::quantize {

class RecipeRows {
 public:
  // Throws Error(kInvalidModel) when the recipe does not make the weight's shape or a source lies
  // outside its file. All arguments must outlive this.
  RecipeRows(const ir::Graph& graph, const ir::Weight& weight, const Files& files);

  int64_t n() const { return n_; }  // 1 for a vector
  int64_t k() const { return k_; }

  // Row `row` as f32, [k]; exactly as the source format defines it.
  void read(int64_t row, float* to);
  // Row `row` into the same row of `to`: the source's own codes where `to.format` can take them,
  // otherwise quantised from f32.
  void store(int64_t row, kernels::CodedRows& to);

 private:
  struct Row {
    int32_t source = -1;  // -1: a literal
    int64_t index = 0;    // row or column of the source, or offset in literals_
    bool column = false;
    int32_t dequantizer = -1;  // index into dequantizers_; `index` is its row
  };

  // What holds the row's own codes, or floats.
  const QuantFormat& exact(const Row& row) const;
  void decode_row_codes(const Row& row, const RowCodes& to) const;
  void check_source(const ir::WeightSource& source) const;
  const std::byte* bytes(const Row& row) const;
  const ir::WeightSource& source(const Row& row) const { return graph_.sources[row.source]; }
  void read_column(const Row& from, float* to) const;
  void copy_codes(const Row& from, int64_t row, kernels::CodedRows& to);
  std::vector<Row> map_rows();
  std::vector<float> make_vector();
  std::vector<float> whole(const ir::WeightSource& source);
  void decode(ir::SourceType type, const std::byte* from, int64_t k, float* to);

  const ir::Graph& graph_;
  const ir::Weight& weight_;
  const Files& files_;
  int64_t n_ = 1;
  int64_t k_ = 0;
  std::vector<Row> rows_;        // matrices
  std::vector<float> vector_;    // vectors, made at once
  std::vector<float> literals_;  // rows of literals
  std::vector<Dequantizer> dequantizers_;
  std::vector<int8_t> codes_;  // scratch of one row
  std::vector<float> scales_;
  std::vector<float> minima_;
  std::vector<float> floats_;
};

}  // namespace kvern::quantize
