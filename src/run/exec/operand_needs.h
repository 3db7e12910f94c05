// What each kernel family reads and writes through its operands: the size a row, a weight or a step
// input must have, so that a program from a file can be held to it before it runs.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "tensor/quant_format.h"

namespace kvern::exec {

enum class NeedKind : uint8_t {
  kRow,        // f32 rows of at least row_bytes
  kDenseRow,   // rows of exactly row_bytes, one behind the other
  kPacked,     // a packed weight [n, k] of `format`
  kDense,      // a dense f32 weight of n elements
  kIds,        // the step input of token ids
  kPositions,  // … of positions
  kWanted,     // … of wanted rows
  kIndices,    // the step input of token ids or of positions
};

enum class RowRule : uint8_t {
  kSame,    // all such operands of an instruction have the same rows
  kTokens,  // one row per token
  kWanted,  // one row per wanted row
};

struct OperandNeed {
  NeedKind kind = NeedKind::kRow;
  RowRule rows = RowRule::kSame;
  int64_t row_bytes = 0;
  int64_t n = 0, k = 0;
  QuantFormat format;
};

// Inputs, then outputs. Nothing for a family without an entry here. Throws Error(kInvalidPlan) for
// sizes that overflow.
std::vector<OperandNeed> operand_needs(std::string_view family,
                                       const std::vector<NamedField>& desc);

}  // namespace kvern::exec
