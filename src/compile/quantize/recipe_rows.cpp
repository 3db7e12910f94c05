#include "compile/quantize/recipe_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "compile/quantize/blocks.h"
#include "compile/quantize/exact_format.h"
#include "compile/quantize/quantize_row.h"
#include "kvern/error.h"

namespace kvern::quantize {
namespace {

[[noreturn]] void refuse(const std::string& weight, const std::string& problem) {
  throw Error(Code::kInvalidModel, fmt::format("weight '{}': {}", weight, problem));
}

// Evaluates a recipe over things that recipes move about: rows of a matrix, elements of a vector.
// leaf(node) gives those of a source or a literal, change(node, in) what else is done to them.
template <class T, class Leaf, class Change>
std::vector<T> evaluate(const ir::Recipe& recipe, Leaf leaf, Change change) {
  std::vector<std::vector<T>> results;
  for (const ir::RecipeNode& node : recipe.nodes) {
    std::vector<T> out;
    if (node.op == ir::RecipeOp::kConcatRows) {
      for (const int32_t input : node.inputs) {
        const std::vector<T>& part = results[static_cast<size_t>(input)];
        out.insert(out.end(), part.begin(), part.end());
      }
    } else if (ir::moves_rows(node.op)) {
      const std::vector<T>& in = results[static_cast<size_t>(node.inputs[0])];
      const auto in_rows = static_cast<int64_t>(in.size());
      const int64_t rows = ir::num_moved_rows(node, in_rows);
      for (int64_t row = 0; row < rows; ++row) {
        out.push_back(in[static_cast<size_t>(ir::moved_row(node, row, in_rows))]);
      }
    } else if (!node.inputs.empty()) {
      out = change(node, results[static_cast<size_t>(node.inputs[0])]);
    } else {
      out = leaf(node);
    }
    results.push_back(std::move(out));
  }
  return std::move(results.back());
}

}  // namespace

RecipeRows::RecipeRows(const ir::Graph& graph, const ir::Weight& weight, const Files& files)
    : graph_(graph), weight_(weight), files_(files) {
  const Shape& shape = weight.shape;
  if (shape.empty() || shape.size() > 2) refuse(weight.name, "is neither a vector nor a matrix");
  const Shape made = ir::recipe_shape(weight.recipe, graph.sources, shape);
  if (made != shape) {
    refuse(weight.name, fmt::format("its recipe makes {}, the graph wants {}", to_string(made),
                                    to_string(shape)));
  }
  for (const ir::RecipeNode& node : weight.recipe.nodes) {
    if (node.op == ir::RecipeOp::kSource) check_source(graph.sources[node.source]);
  }
  k_ = shape.back();
  if (shape.size() == 2) n_ = shape.front();
  // A vector may take a part of its source, which is decoded whole.
  int64_t longest = k_;
  for (const ir::RecipeNode& node : weight.recipe.nodes) {
    if (node.op != ir::RecipeOp::kSource) continue;
    longest = std::max(longest, graph.sources[static_cast<size_t>(node.source)].shape.back());
  }
  const auto scratch = static_cast<size_t>(longest);
  codes_.resize(scratch);
  scales_.resize(scratch);
  minima_.resize(scratch);
  floats_.resize(scratch);
  if (shape.size() == 2)
    rows_ = map_rows();
  else
    vector_ = make_vector();
}

void RecipeRows::check_source(const ir::WeightSource& source) const {
  if (source.file < 0 || static_cast<size_t>(source.file) >= files_.size()) {
    refuse(weight_.name,
           fmt::format("source '{}' is in file {} of {}", source.name, source.file, files_.size()));
  }
  const ir::SourceTypeInfo& type = ir::source_type_info(source.type);
  const int64_t elements = num_elements(source.shape);
  const auto bytes = checked_mul(static_cast<uint64_t>(elements / type.block_elements),
                                 static_cast<uint64_t>(type.block_bytes));
  const MappedFile& file = *files_[static_cast<size_t>(source.file)];
  if (source.shape.empty() || source.shape.back() % type.block_elements != 0 || !bytes ||
      *bytes != source.bytes || !extent_inside(source.offset, source.bytes, file.bytes().size())) {
    refuse(weight_.name,
           fmt::format("source '{}' ({} {}) takes {} bytes at {} of '{}', which has {}; the file "
                       "is not the one that was imported",
                       source.name, type.name, to_string(source.shape), source.bytes, source.offset,
                       file.path(), file.bytes().size()));
  }
}

std::vector<RecipeRows::Row> RecipeRows::map_rows() {
  // A dequantiser reads its inputs itself; scales are too many to be rows.
  const std::vector<bool> inside = read_by_dequantize(weight_.recipe, true);
  const auto leaf = [&](const ir::RecipeNode& node) {
    std::vector<Row> rows;
    if (inside[static_cast<size_t>(&node - weight_.recipe.nodes.data())]) return rows;
    if (node.op == ir::RecipeOp::kSource) {
      const int64_t count = graph_.sources[node.source].shape.front();
      for (int64_t i = 0; i < count; ++i) rows.push_back({node.source, i});
      return rows;
    }
    for (size_t at = 0; at + static_cast<size_t>(k_) <= node.values.size();
         at += static_cast<size_t>(k_)) {
      rows.push_back({-1, static_cast<int64_t>(literals_.size())});
      for (int64_t i = 0; i < k_; ++i) {
        literals_.push_back(static_cast<float>(node.values[at + static_cast<size_t>(i)]));
      }
    }
    return rows;
  };
  // kTranspose of a source: its columns. kDequantize: rows of the dequantiser, whose inputs no
  // other node reads.
  const auto columns = [&](const ir::RecipeNode& node, const std::vector<Row>& in) {
    std::vector<Row> out;
    if (node.op == ir::RecipeOp::kDequantize) {
      const auto own = static_cast<int32_t>(dequantizers_.size());
      dequantizers_.emplace_back(graph_, weight_.recipe, node, files_);
      for (int64_t i = 0; i < dequantizers_.back().num_rows(); ++i) {
        out.push_back({-1, i, false, own});
      }
      return out;
    }
    const int64_t count = graph_.sources[static_cast<size_t>(in.at(0).source)].shape[1];
    for (int64_t i = 0; i < count; ++i) out.push_back({in[0].source, i, true});
    return out;
  };
  return evaluate<Row>(weight_.recipe, leaf, columns);
}

std::vector<float> RecipeRows::make_vector() {
  const auto leaf = [&](const ir::RecipeNode& node) {
    if (node.op == ir::RecipeOp::kSource) return whole(graph_.sources[node.source]);
    return std::vector<float>(node.values.begin(), node.values.end());
  };
  const auto offset = [](const ir::RecipeNode& node, std::vector<float> in) {
    for (float& value : in) value += static_cast<float>(node.values.at(0));
    return in;
  };
  return evaluate<float>(weight_.recipe, leaf, offset);
}

std::vector<float> RecipeRows::whole(const ir::WeightSource& source) {
  std::vector<float> out(static_cast<size_t>(source.shape.front()));
  const auto file = files_[static_cast<size_t>(source.file)]->bytes();
  decode(source.type, file.data() + source.offset, source.shape.front(), out.data());
  return out;
}

const std::byte* RecipeRows::bytes(const Row& row) const {
  const ir::WeightSource& from = source(row);
  const ir::SourceTypeInfo& type = ir::source_type_info(from.type);
  const int64_t row_bytes = k_ / type.block_elements * type.block_bytes;
  return files_[static_cast<size_t>(from.file)]->bytes().data() + from.offset +
         row.index * row_bytes;
}

void RecipeRows::decode(ir::SourceType type, const std::byte* from, int64_t k, float* to) {
  const QuantFormat& format = ir::source_type_info(type).exact;
  if (!format.quantised()) return decode_floats(type, from, k, to);
  decode_codes(type, from, k, {codes_.data(), scales_.data(), minima_.data()});
  apply_scales(codes_.data(), scales_.data(), format.has_min ? minima_.data() : nullptr, k,
               format.group, to);
}

void RecipeRows::read_column(const Row& from, float* to) const {
  const ir::WeightSource& source = this->source(from);
  const int64_t element_bytes = ir::source_type_info(source.type).block_bytes;
  const std::byte* at = files_[static_cast<size_t>(source.file)]->bytes().data() + source.offset +
                        from.index * element_bytes;
  for (int64_t i = 0; i < k_; ++i, at += source.shape[1] * element_bytes) {
    decode_floats(source.type, at, 1, to + i);
  }
}

void RecipeRows::read(int64_t row, float* to) {
  if (weight_.shape.size() == 1) {
    std::memcpy(to, vector_.data(), vector_.size() * sizeof(float));
    return;
  }
  const Row& from = rows_[static_cast<size_t>(row)];
  if (from.dequantizer >= 0) {
    dequantizers_[static_cast<size_t>(from.dequantizer)].read(from.index, to);
  } else if (from.source < 0) {
    std::memcpy(to, literals_.data() + from.index, static_cast<size_t>(k_) * sizeof(float));
  } else if (from.column) {
    read_column(from, to);
  } else {
    decode(source(from).type, bytes(from), k_, to);
  }
}

void RecipeRows::store(int64_t row, kernels::CodedRows& to) {
  if (weight_.shape.size() == 2) {
    const Row& from = rows_[static_cast<size_t>(row)];
    if ((from.source >= 0 && !from.column) || from.dequantizer >= 0) {
      const QuantFormat& exact = this->exact(from);
      if (holds_codes(to.format, exact)) return copy_codes(from, row, to);
      if (from.source >= 0 && !exact.quantised() && exact.storage == to.format.storage) {
        const auto row_bytes = static_cast<size_t>(dtype_bytes(exact.storage, k_));
        std::memcpy(to.codes.data() + static_cast<size_t>(row) * row_bytes, bytes(from), row_bytes);
        return;
      }
    }
  }
  read(row, floats_.data());
  quantize_row(floats_.data(), row, weight_.name, to);
}

const QuantFormat& RecipeRows::exact(const Row& row) const {
  if (row.dequantizer >= 0) return dequantizers_[static_cast<size_t>(row.dequantizer)].format();
  return ir::source_type_info(source(row).type).exact;
}

void RecipeRows::decode_row_codes(const Row& row, const RowCodes& to) const {
  if (row.dequantizer >= 0) {
    return dequantizers_[static_cast<size_t>(row.dequantizer)].codes(row.index, to);
  }
  decode_codes(source(row).type, bytes(row), k_, to);
}

void RecipeRows::copy_codes(const Row& from, int64_t row, kernels::CodedRows& to) {
  const QuantFormat& exact = this->exact(from);
  auto* codes = reinterpret_cast<int8_t*>(to.codes.data() + row * k_);
  decode_row_codes(from, {codes, scales_.data(), minima_.data()});
  const int64_t groups = to.format.groups(k_);
  // Groups of `to` in one of the source's; a scale of a whole row is that of all.
  const int64_t repeat = exact.group == 0 ? groups : exact.group / to.format.group;
  for (int64_t g = 0; g < groups; ++g) {
    const auto at = static_cast<size_t>(row * groups + g);
    to.scales[at] = round_scale(scales_[g / repeat], to.format.scale);
    bool finite = std::isfinite(to.scales[at]);
    if (to.format.has_min) {
      to.minima[at] = exact.has_min ? round_scale(minima_[g / repeat], to.format.scale) : 0.0f;
      finite = finite && std::isfinite(to.minima[at]);
    }
    if (!finite) {
      refuse(weight_.name, fmt::format("row {} has a scale or minimum that is not finite or beyond "
                                       "{}'s range",
                                       row, dtype_name(to.format.scale)));
    }
  }
}

}  // namespace kvern::quantize
