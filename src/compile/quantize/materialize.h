// Weights become bytes: a recipe is evaluated over the mapped source files, one weight at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "compile/ir/graph.h"
#include "kernels/pack.h"

namespace kvern::quantize {

using Files = std::vector<std::shared_ptr<MappedFile>>;

// The weight in its storage format, before packing. Exact where `storage` is what the source holds
// (SourceTypeInfo::exact); otherwise through f32: floats are rounded to nearest even, integers get
// one scale per group (and minimum where the format has one).
kernels::CodedRows materialize(const ir::Graph& graph, const ir::Weight& weight,
                               const Files& files);

// The same value as f32, exactly as the source files define it.
std::vector<float> materialize_f32(const ir::Graph& graph, const ir::Weight& weight,
                                   const Files& files);

// Which storage every weight gets. Vectors (rank 1) always stay f32.
enum class WeightChoice { kKeep, kF32, kF16, kBf16, kInt8, kInt4 };

struct WeightNote {
  std::string name;
  std::string from;      // "Q4_1"
  std::string to;        // "i4 g32 f16 min"
  bool exact = true;     // false: rounded; the figures below are then filled by measure_error
  double max_error = 0;  // |stored - source|, over the weight
  double rms_error = 0;  // relative to the weight's own rms
};

// Sets Weight::storage of every weight of the graph; what becomes of each is returned in order.
std::vector<WeightNote> apply(ir::Graph& graph, WeightChoice choice);

// Fills the error figures of `note` for a weight already materialised.
void measure_error(const ir::Graph& graph, const ir::Weight& weight, const Files& files,
                   const kernels::CodedRows& stored, WeightNote& note);

}  // namespace kvern::quantize
