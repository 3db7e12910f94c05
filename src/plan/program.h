// The program of a plan: kernel calls in order, over buffers whose places are already decided.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"

namespace kvern::plan {

enum class OperandKind : uint8_t {
  kBuffer = 0,     // index into Program::buffers; `offset_bytes` into the row: a split is a view
  kWeight = 1,     // index into Plan::weights
  kStepInput = 2,  // index into Program::step_inputs: "ids", "positions", "wanted"
};

struct OperandRef {
  OperandKind kind = OperandKind::kBuffer;
  int32_t index = 0;
  int64_t offset_bytes = 0;
};

struct Instruction {
  std::string family;            // kernels::find_family
  std::vector<NamedField> desc;  // the family's Desc
  std::vector<OperandRef> inputs;
  std::vector<OperandRef> outputs;
  std::string tactic;  // preferred implementation; empty: the table's order
  std::string source;  // the graph's value: "layers.3.qkv", for reports
};

enum class RowCount : uint8_t { kTokens = 0, kWanted = 1 };

// Rows of `row_bytes`, one per token or per wanted row. All buffers of one row count share an
// arena: with R rows (rounded up to 16), the buffer starts at offset_per_row * R.
struct BufferPlace {
  RowCount rows = RowCount::kTokens;
  int64_t row_bytes = 0;
  int64_t offset_per_row = 0;
};

struct StepInput {
  std::string name;
  RowCount rows = RowCount::kTokens;
};

struct Output {
  std::string name;  // "logits"
  int32_t buffer = 0;
};

struct Program {
  std::vector<StepInput> step_inputs;
  std::vector<BufferPlace> buffers;
  std::vector<Instruction> instructions;
  std::vector<Output> outputs;
  int64_t token_arena_bytes_per_row = 0;
  int64_t wanted_arena_bytes_per_row = 0;
};

}  // namespace kvern::plan
