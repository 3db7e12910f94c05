// Codes with scales on their way into weights: MatMulNBits, GatherBlockQuantized, DequantizeLinear.
#pragma once

#include <optional>
#include <vector>

#include "compile/ir/recipe.h"
#include "compile/passes/token_form/value.h"

namespace kvern::passes::token_form {

struct RuleCall;

// The array of a constant as it lies in the file, whatever it was reshaped to; nothing where it was
// turned or dequantised.
std::optional<ir::Array> lying(Value& value);

// The matrix of codes of a quantised Provenance, as recipes mean it, before it is turned.
struct CodeMatrix {
  int64_t rows = 0;
  int64_t cols = 0;      // with what fills up the last block
  int64_t num_cols = 0;  // without
  int64_t row_block = 0, col_block = 0;
  ir::ScaleGrid grid{1, 1};
  std::optional<ir::SourceType> type;  // nullopt: elements that no source type names
};
CodeMatrix code_matrix(const Provenance& from);

// One per block, rows first.
std::vector<float> block_scales(const Provenance& from);
std::vector<float> block_zeros(const Provenance& from);

// (code - zero) * scale of the matrix before it is turned.
std::vector<float> dequantised(const Provenance& from);

// DequantizeLinear of constant codes that stay codes; nullptr where it should be evaluated.
std::shared_ptr<const Provenance> dequantised_weight(const RuleCall& call);

// Integers as numbers: scale 1, zero 0 or as given.
std::shared_ptr<const Provenance> plain_codes(const Provenance& from, ir::Array zeros);

}  // namespace kvern::passes::token_form
