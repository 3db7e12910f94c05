#include "plan/program_wire.h"

#include <fmt/format.h>

namespace kvern::plan {
namespace {

// Bytes per row of an arena or a buffer: far above any model, low enough that rows * bytes fits.
constexpr int64_t kMaxRowBytes = int64_t{1} << 40;
// No kernel family takes more than seven operands; three step inputs are known.
constexpr uint32_t kMaxOperands = 16;
constexpr uint32_t kMaxStepInputs = 16;

void write_operands(WireWriter& out, const std::vector<OperandRef>& operands) {
  out.number<uint32_t>(static_cast<uint32_t>(operands.size()));
  for (const OperandRef& operand : operands) {
    out.number<uint8_t>(static_cast<uint8_t>(operand.kind));
    out.number<int32_t>(operand.index);
    out.number<int64_t>(operand.offset_bytes);
  }
}

std::vector<OperandRef> read_operands(WireReader& in) {
  const uint32_t count = in.count(/*min_item_bytes=*/13, "operands", kMaxOperands);
  std::vector<OperandRef> operands;
  for (uint32_t i = 0; i < count; ++i) {
    OperandRef& operand = operands.emplace_back();
    const auto kind = in.number<uint8_t>("operand kind");
    if (kind > static_cast<uint8_t>(OperandKind::kStepInput)) {
      in.fail("operand kind", fmt::format("unknown kind {}", kind));
    }
    operand.kind = static_cast<OperandKind>(kind);
    operand.index = in.number<int32_t>("operand index");
    operand.offset_bytes = in.number<int64_t>("operand offset");
  }
  return operands;
}

RowCount read_row_count(WireReader& in) {
  const auto rows = in.number<uint8_t>("row count");
  if (rows > static_cast<uint8_t>(RowCount::kWanted)) {
    in.fail("row count", fmt::format("unknown kind {}", rows));
  }
  return static_cast<RowCount>(rows);
}

[[noreturn]] void fail(std::string_view where, std::string_view problem) {
  throw Error(Code::kInvalidPlan, fmt::format("plan program: {}: {}", where, problem));
}

void check_buffer(const Program& program, size_t index) {
  const BufferPlace& buffer = program.buffers[index];
  const int64_t arena = buffer.rows == RowCount::kTokens ? program.token_arena_bytes_per_row
                                                         : program.wanted_arena_bytes_per_row;
  if (buffer.row_bytes < 1 || buffer.row_bytes % 4 != 0 || buffer.offset_per_row < 0 ||
      buffer.offset_per_row % 4 != 0 || buffer.row_bytes > arena ||
      buffer.offset_per_row > arena - buffer.row_bytes) {
    fail(fmt::format("buffer {}", index),
         fmt::format("{} bytes at {} do not lie in an arena of {} bytes a row", buffer.row_bytes,
                     buffer.offset_per_row, arena));
  }
}

void check_operand(const Program& program, size_t num_weights, const OperandRef& operand,
                   const std::string& where) {
  const auto index = static_cast<size_t>(operand.index);
  size_t limit = num_weights;
  if (operand.kind == OperandKind::kBuffer) limit = program.buffers.size();
  if (operand.kind == OperandKind::kStepInput) limit = program.step_inputs.size();
  if (operand.index < 0 || index >= limit) {
    fail(where, fmt::format("operand index {} is not below {}", operand.index, limit));
  }
  const int64_t row_bytes =
      operand.kind == OperandKind::kBuffer ? program.buffers[index].row_bytes : 1;
  if (operand.offset_bytes < 0 || operand.offset_bytes >= row_bytes) {
    fail(where, fmt::format("operand offset {} is outside a row of {} bytes", operand.offset_bytes,
                            row_bytes));
  }
}

}  // namespace

void write_program(WireWriter& out, const Program& program) {
  out.number<uint32_t>(static_cast<uint32_t>(program.step_inputs.size()));
  for (const StepInput& input : program.step_inputs) {
    out.string(input.name);
    out.number<uint8_t>(static_cast<uint8_t>(input.rows));
  }
  out.number<uint32_t>(static_cast<uint32_t>(program.buffers.size()));
  for (const BufferPlace& buffer : program.buffers) {
    out.number<uint8_t>(static_cast<uint8_t>(buffer.rows));
    out.number<int64_t>(buffer.row_bytes);
    out.number<int64_t>(buffer.offset_per_row);
  }
  out.number<uint32_t>(static_cast<uint32_t>(program.instructions.size()));
  for (const Instruction& instruction : program.instructions) {
    out.string(instruction.family);
    out.fields(instruction.desc);
    write_operands(out, instruction.inputs);
    write_operands(out, instruction.outputs);
    out.string(instruction.source);
  }
  out.number<uint32_t>(static_cast<uint32_t>(program.outputs.size()));
  for (const Output& output : program.outputs) {
    out.string(output.name);
    out.number<int32_t>(output.buffer);
  }
  out.number<int64_t>(program.token_arena_bytes_per_row);
  out.number<int64_t>(program.wanted_arena_bytes_per_row);
}

Program read_program(WireReader& in) {
  Program program;
  const uint32_t num_inputs = in.count(/*min_item_bytes=*/5, "step inputs", kMaxStepInputs);
  for (uint32_t i = 0; i < num_inputs; ++i) {
    StepInput& input = program.step_inputs.emplace_back();
    input.name = in.string("step input");
    input.rows = read_row_count(in);
  }
  const uint32_t num_buffers = in.count(/*min_item_bytes=*/17, "buffers");
  for (uint32_t i = 0; i < num_buffers; ++i) {
    BufferPlace& buffer = program.buffers.emplace_back();
    buffer.rows = read_row_count(in);
    buffer.row_bytes = in.number<int64_t>("buffer row bytes");
    buffer.offset_per_row = in.number<int64_t>("buffer offset");
  }
  const uint32_t num_instructions = in.count(/*min_item_bytes=*/18, "instructions");
  for (uint32_t i = 0; i < num_instructions; ++i) {
    Instruction& instruction = program.instructions.emplace_back();
    instruction.family = in.string("kernel family");
    instruction.desc = in.fields("desc");
    instruction.inputs = read_operands(in);
    instruction.outputs = read_operands(in);
    instruction.source = in.string("source value");
  }
  const uint32_t num_outputs = in.count(/*min_item_bytes=*/8, "outputs");
  for (uint32_t i = 0; i < num_outputs; ++i) {
    Output& output = program.outputs.emplace_back();
    output.name = in.string("output");
    output.buffer = in.number<int32_t>("output buffer");
  }
  program.token_arena_bytes_per_row = in.number<int64_t>("token arena");
  program.wanted_arena_bytes_per_row = in.number<int64_t>("wanted arena");
  return program;
}

void validate_program(const Program& program, size_t num_weights) {
  for (const int64_t arena :
       {program.token_arena_bytes_per_row, program.wanted_arena_bytes_per_row}) {
    if (arena < 0 || arena > kMaxRowBytes) fail("arena", fmt::format("{} bytes a row", arena));
  }
  for (size_t i = 0; i < program.buffers.size(); ++i) check_buffer(program, i);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const std::string where = fmt::format("instruction {} ({})", i, instruction.family);
    for (const OperandRef& operand : instruction.inputs) {
      check_operand(program, num_weights, operand, where);
    }
    for (const OperandRef& operand : instruction.outputs) {
      if (operand.kind != OperandKind::kBuffer) fail(where, "writes to something not a buffer");
      check_operand(program, num_weights, operand, where);
    }
  }
  for (const Output& output : program.outputs) {
    if (output.buffer < 0 || static_cast<size_t>(output.buffer) >= program.buffers.size()) {
      fail("output '" + output.name + "'", fmt::format("no buffer {}", output.buffer));
    }
  }
}

}  // namespace kvern::plan
