#include "compile/quantize/materialize.h"

#include <algorithm>
#include <cmath>

#include "compile/quantize/quantize_row.h"
#include "compile/quantize/recipe_rows.h"

namespace kvern::quantize {

kernels::CodedRows materialize(const ir::Graph& graph, const ir::Weight& weight,
                               const Files& files) {
  RecipeRows rows(graph, weight, files);
  kernels::CodedRows out;
  out.format = weight.storage;
  out.n = rows.n();
  out.k = rows.k();
  allocate(out);
  for (int64_t row = 0; row < rows.n(); ++row) rows.store(row, out);
  return out;
}

std::vector<float> materialize_f32(const ir::Graph& graph, const ir::Weight& weight,
                                   const Files& files) {
  RecipeRows rows(graph, weight, files);
  std::vector<float> out(static_cast<size_t>(rows.n() * rows.k()));
  for (int64_t row = 0; row < rows.n(); ++row) rows.read(row, out.data() + row * rows.k());
  return out;
}

void measure_error(const ir::Graph& graph, const ir::Weight& weight, const Files& files,
                   const kernels::CodedRows& stored, WeightNote& note) {
  RecipeRows rows(graph, weight, files);
  const auto k = static_cast<size_t>(rows.k());
  std::vector<float> want(k);
  std::vector<float> got(k);
  double worst = 0;
  double sum_error = 0;
  double sum_value = 0;
  for (int64_t row = 0; row < rows.n(); ++row) {
    rows.read(row, want.data());
    dequantize_row(stored, row, got.data());
    for (size_t i = 0; i < k; ++i) {
      const double error = std::fabs(static_cast<double>(got[i]) - want[i]);
      worst = std::max(worst, error);
      sum_error += error * error;
      sum_value += static_cast<double>(want[i]) * want[i];
    }
  }
  note.max_error = worst;
  note.rms_error = sum_value > 0 ? std::sqrt(sum_error / sum_value) : std::sqrt(sum_error);
}

}  // namespace kvern::quantize
