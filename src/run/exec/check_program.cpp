#include "run/exec/check_program.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/log.h"
#include "kernels/gather.h"
#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/pack.h"
#include "run/exec/operand_needs.h"
#include "run/exec/tactic_report.h"

namespace kvern::exec {
namespace {

using plan::OperandKind;
using plan::OperandRef;
using plan::Plan;
using plan::RowCount;

// Checks one instruction; messages name it.
class InstructionCheck {
 public:
  InstructionCheck(const Plan& plan, size_t index)
      : plan_(plan), instruction_(plan.program.instructions[index]), index_(index) {}

  void run() {
    const std::vector<OperandNeed> needs = operand_needs(instruction_.family, instruction_.desc);
    const size_t num_inputs = instruction_.inputs.size();
    if (needs.size() != num_inputs + instruction_.outputs.size()) {
      fail(fmt::format("has {} inputs and {} outputs; the family takes {} operands in all",
                       num_inputs, instruction_.outputs.size(), needs.size()));
    }
    for (size_t i = 0; i < needs.size(); ++i) {
      operand_ = i;
      const bool output = i >= num_inputs;
      check_operand(output ? instruction_.outputs[i - num_inputs] : instruction_.inputs[i],
                    needs[i]);
    }
    check_kv_group();
    check_vocabulary();
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(Code::kInvalidPlan,
                fmt::format("plan program: instruction {} ({} '{}') {}; build the plan again",
                            index_, instruction_.family, instruction_.source, problem));
  }

 private:
  void check_operand(const OperandRef& ref, const OperandNeed& need) {
    switch (need.kind) {
      case NeedKind::kRow:
      case NeedKind::kDenseRow:
        return check_buffer(ref, need);
      case NeedKind::kPacked:
      case NeedKind::kDense:
        return check_weight(ref, need);
      case NeedKind::kIds:
        return check_step_input(ref, need, "ids");
      case NeedKind::kPositions:
        return check_step_input(ref, need, "positions");
      case NeedKind::kWanted:
        return check_step_input(ref, need, "wanted");
      case NeedKind::kIndices:
        return check_step_input(ref, need, reads_positions() ? "positions" : "ids");
    }
  }

  size_t index_of(const OperandRef& ref, OperandKind kind, size_t limit) const {
    if (ref.kind != kind || ref.index < 0 || static_cast<size_t>(ref.index) >= limit) {
      fail(fmt::format("operand {} is of another kind or index {} is not below {}", operand_,
                       ref.index, limit));
    }
    return static_cast<size_t>(ref.index);
  }

  void check_rows(RowRule rule, RowCount rows) {
    if (rule == RowRule::kSame) {
      if (same_rows_.value_or(rows) != rows) fail("mixes token rows and wanted rows");
      same_rows_ = rows;
    } else if ((rule == RowRule::kTokens) != (rows == RowCount::kTokens)) {
      fail(fmt::format("operand {} has the wrong kind of rows", operand_));
    }
  }

  void check_buffer(const OperandRef& ref, const OperandNeed& need) {
    const size_t index = index_of(ref, OperandKind::kBuffer, plan_.program.buffers.size());
    const plan::BufferPlace& buffer = plan_.program.buffers[index];
    check_rows(need.rows, buffer.rows);
    if (ref.offset_bytes < 0 || ref.offset_bytes % 4 != 0 || buffer.row_bytes % 4 != 0 ||
        need.row_bytes > buffer.row_bytes || ref.offset_bytes > buffer.row_bytes - need.row_bytes) {
      fail(fmt::format("operand {} needs {} bytes at {} of a row of {}", operand_, need.row_bytes,
                       ref.offset_bytes, buffer.row_bytes));
    }
    if (need.kind == NeedKind::kDenseRow && need.row_bytes != buffer.row_bytes) {
      fail(fmt::format("operand {} needs rows of exactly {} bytes, got {}", operand_,
                       need.row_bytes, buffer.row_bytes));
    }
  }

  void check_weight(const OperandRef& ref, const OperandNeed& need) const {
    const plan::Weight& weight =
        plan_.weights[index_of(ref, OperandKind::kWeight, plan_.weights.size())];
    const bool dense = need.kind == NeedKind::kDense;
    const std::string_view packing = dense ? "dense" : kernels::packing_name(need.format);
    // Bounded by check_packable, or by the row that goes with it.
    const int64_t bytes = dense ? need.n * static_cast<int64_t>(sizeof(float))
                                : kernels::packed_bytes(need.format, need.n, need.k);
    const bool format = dense ? weight.format.storage == DType::kF32 : weight.format == need.format;
    if (ref.offset_bytes != 0 || weight.packing != packing || !format ||
        weight.size_bytes < static_cast<uint64_t>(bytes)) {
      fail(fmt::format("needs {} bytes of {} ({}), but weight '{}' has {} of {} ({})", bytes,
                       to_string(need.format), packing, weight.name, weight.size_bytes,
                       to_string(weight.format), weight.packing));
    }
  }

  void check_step_input(const OperandRef& ref, const OperandNeed& need,
                        std::string_view name) const {
    const auto& inputs = plan_.program.step_inputs;
    const plan::StepInput& input = inputs[index_of(ref, OperandKind::kStepInput, inputs.size())];
    const RowCount rows = need.rows == RowRule::kTokens ? RowCount::kTokens : RowCount::kWanted;
    if (input.name != name || input.rows != rows || ref.offset_bytes != 0) {
      fail(fmt::format("operand {} needs the step input '{}', got '{}'", operand_, name,
                       input.name));
    }
  }

  void check_kv_group() const {
    kernels::KvSlotDesc slot;
    if (instruction_.family == kernels::KvAppendFamily::kName) {
      slot = from_fields<kernels::KvAppendDesc>(instruction_.desc);
    } else if (instruction_.family == kernels::KvAttentionFamily::kName) {
      slot = from_fields<kernels::KvAttentionDesc>(instruction_.desc);
    } else {
      return;
    }
    const auto& groups = plan_.kv_layout.groups();
    if (slot.kv_group < 0 || static_cast<size_t>(slot.kv_group) >= groups.size()) {
      fail(fmt::format("names KV group {} of {}", slot.kv_group, groups.size()));
    }
    const plan::KvGroup& group = groups[static_cast<size_t>(slot.kv_group)];
    if (slot.page_bytes != group.page_bytes || slot.page_tokens != group.page_tokens) {
      fail(fmt::format("has pages of {} bytes and {} tokens; the layout has {} and {}",
                       slot.page_bytes, slot.page_tokens, group.page_bytes, group.page_tokens));
    }
    if (group.retention == plan::Retention::kWindow) check_window(group);
  }

  // Pages behind the group's window go to others: attention must not look there.
  void check_window(const plan::KvGroup& group) const {
    if (instruction_.family != kernels::KvAttentionFamily::kName) return;
    const auto desc = from_fields<kernels::KvAttentionDesc>(instruction_.desc);
    if (desc.mask == kernels::AttentionMask::kWindow && desc.window <= group.window_tokens) return;
    fail(desc.mask == kernels::AttentionMask::kWindow
             ? fmt::format("looks {} tokens back; its KV group keeps {}", desc.window,
                           group.window_tokens)
             : fmt::format("looks at every token; its KV group keeps {}", group.window_tokens));
  }

  // An embedding of positions instead of ids.
  bool reads_positions() const {
    const auto& inputs = plan_.program.step_inputs;
    const size_t index = index_of(instruction_.inputs[0], OperandKind::kStepInput, inputs.size());
    return inputs[index].name == "positions";
  }

  // Ids are below the vocabulary and positions below the profile's longest context.
  void check_vocabulary() const {
    if (instruction_.family != kernels::EmbeddingFamily::kName) return;
    const auto desc = from_fields<kernels::EmbeddingDesc>(instruction_.desc);
    const int64_t longest = plan_.profile.context_length.max;
    if (reads_positions()) {
      if (desc.vocabulary >= longest) return;
      fail(fmt::format("embeds {} positions; a context may have {}", desc.vocabulary, longest));
    }
    if (desc.vocabulary < plan_.vocabulary_size) {
      fail(fmt::format("embeds {} ids; the vocabulary has {}", desc.vocabulary,
                       plan_.vocabulary_size));
    }
  }

  const Plan& plan_;
  const plan::Instruction& instruction_;
  size_t index_;
  size_t operand_ = 0;
  std::optional<RowCount> same_rows_;
};

}  // namespace

std::vector<std::unique_ptr<kernels::PreparedOp>> prepare_program(const Plan& plan,
                                                                  bool plain_kernels) {
  std::vector<std::unique_ptr<kernels::PreparedOp>> ops;
  for (size_t i = 0; i < plan.program.instructions.size(); ++i) {
    const plan::Instruction& instruction = plan.program.instructions[i];
    const kernels::Family* family = kernels::find_family(instruction.family);
    if (family == nullptr) {
      throw Error(Code::kUnsupported,
                  fmt::format("plan program: instruction {} needs kernel family '{}', which this "
                              "Kvern does not have; build the plan again with this version",
                              i, instruction.family));
    }
    ops.push_back(family->prepare(instruction.desc, {instruction.tactic, plain_kernels}));
    InstructionCheck(plan, i).run();
  }
  if (!plain_kernels) {
    const std::string report = other_tactics(plan, ops);
    if (!report.empty()) log::warn("{}", report);
  }
  return ops;
}

size_t find_logits(const Plan& plan) {
  const plan::Program& program = plan.program;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.outputs[i].name != "logits") continue;
    const auto index = static_cast<size_t>(program.outputs[i].buffer);
    const plan::BufferPlace& buffer = program.buffers.at(index);
    const int64_t row_bytes = plan.vocabulary_size * static_cast<int64_t>(sizeof(float));
    if (buffer.rows != RowCount::kWanted || plan.vocabulary_size < 1 ||
        buffer.row_bytes < row_bytes) {
      throw Error(Code::kInvalidPlan,
                  fmt::format("plan program: output 'logits' needs {} bytes per wanted row, has {}",
                              row_bytes, buffer.row_bytes));
    }
    return i;
  }
  throw Error(Code::kInvalidPlan,
              "plan program: there is no output 'logits'; build the plan again");
}

}  // namespace kvern::exec
