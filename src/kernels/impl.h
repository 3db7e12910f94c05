// How a family of kernels is laid out. A family is one op in all its implementations:
//
//   <family>.h              Desc (shapes, dtypes, formats; fields()), Args (pointers, counts,
//   stream) cpu/<family>/*.cpp      implementations; cpu/<family>/table.cpp lists them best first
//
// An implementation says yes, or no with a reason; the last of a table never says no and is the
// oracle.
#pragma once

#include <span>
#include <string>

#include "device/device.h"

namespace kvern::kernels {

// Yes, or no with a reason. lacks(): the Desc is fine but this processor is not; such reasons come
// after those about the Desc, so that a plan can name the tactic that a better machine would take.
struct Verdict {
  bool supported = true;
  std::string reason;  // why not; empty when supported
  bool processor = false;
  static Verdict yes() { return {}; }
  static Verdict no(std::string why) { return {false, std::move(why), false}; }
  static Verdict lacks(std::string what) { return {false, std::move(what), true}; }
};

template <class Desc, class Args>
struct Impl {
  const char* name;      // "cpu.linear.avx512bf16"
  const char* numerics;  // implementations of one id are bit-equal: "bf16.k2.f32", …
  Verdict (*supports)(const Desc& desc);
  void (*run)(const Desc& desc, const Args& args);
};

// A family as programs see it: Desc as fields, operands untyped. families.cpp lists every family
// once.
struct Operand {
  std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t row_stride_bytes = 0;  // from a row to the next; views into wider buffers have gaps
};

// The pages of one KV group as this step sees them.
struct KvPages {
  std::byte* base = nullptr;  // page p starts at base + p * page_bytes
  int64_t page_bytes = 0;
  int32_t page_tokens = 0;
  int32_t num_pages = 0;                  // in the pool: every id in the table is below it
  const int32_t* page_table = nullptr;    // [table_offset[num_sequences]] page ids, by sequence
  const int32_t* table_offset = nullptr;  // [num_sequences + 1]
};

// One step's ragged batch: sequence s owns rows [token_offset[s], token_offset[s + 1]) of every
// [tokens, …] operand, and its row r has the absolute position context_start[s] + r.
struct StepView {
  int32_t num_tokens = 0;
  int32_t num_sequences = 0;
  const int32_t* token_offset = nullptr;   // [num_sequences + 1]
  const int32_t* context_start = nullptr;  // [num_sequences]
  std::span<const KvPages> kv;             // by KV group
};

struct Call {
  std::span<const Operand> inputs;  // as the family's .h lists them
  std::span<const Operand> outputs;
  const StepView* step = nullptr;
  device::Stream* stream = nullptr;
};

// One op of a program, its implementation chosen.
class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  virtual void run(const Call& call) const = 0;
  virtual const char* implementation() const = 0;
  virtual const char* numerics() const = 0;
  virtual int64_t num_inputs() const = 0;
  virtual int64_t num_outputs() const = 0;
};

struct Candidate {
  std::string name;
  std::string numerics;
  Verdict verdict;
};

}  // namespace kvern::kernels
