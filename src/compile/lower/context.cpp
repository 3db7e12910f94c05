#include "compile/lower/context.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/ir/ops.h"
#include "kernels/pack.h"

namespace kvern::lower {
namespace {

constexpr int64_t kElementBytes = 4;  // activations are f32, ids and positions i32

}  // namespace

Context::Context(const ir::Graph& graph, const plan::KvLayout& layout, Activations activations,
                 Lowered& out)
    : graph_(graph),
      layout_(layout),
      activations_(activations),
      out_(out),
      places_(graph.num_values()) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == &ir::ops::kLinear) head_ = node.outputs[0];
  }
}

int64_t Context::width(ir::ValueId id) const {
  const ir::Type& t = type(id);
  KVERN_CHECK(!t.dims.empty() && t.dims.back().is_constant(), "value %{} has no constant width",
              graph_.value(id).name);
  return t.dims.back().value();
}

plan::RowCount Context::row_count(ir::ValueId id) const {
  const ir::Type& t = type(id);
  KVERN_CHECK(!t.dims.empty() && !t.dims[0].is_constant(), "value %{} has no rows",
              graph_.value(id).name);
  if (t.dims[0].symbol() == ir::kTokens) return plan::RowCount::kTokens;
  if (t.dims[0].symbol() == ir::kWanted) return plan::RowCount::kWanted;
  throw Error(Code::kUnsupported,
              fmt::format("lowering: value %{} has rows '{}'; tokens and wanted "
                          "are known",
                          graph_.value(id).name, t.dims[0].symbol()));
}

void Context::bind_step_input(ir::ValueId id, const std::string& name) {
  auto& inputs = out_.program.step_inputs;
  inputs.push_back({name, row_count(id)});
  places_[static_cast<size_t>(id.value)] = {
      true, {plan::OperandKind::kStepInput, static_cast<int32_t>(inputs.size() - 1), 0}};
}

void Context::bind_weight(ir::ValueId id, const std::string& weight_name) {
  const int index = graph_.weight_index(weight_name);
  KVERN_CHECK(index >= 0, "no weight '{}'", weight_name);
  int32_t at = -1;
  for (size_t i = 0; i < out_.weight_index.size(); ++i) {
    if (out_.weight_index[i] == index) at = static_cast<int32_t>(i);
  }
  if (at < 0) {
    const ir::Weight& weight = graph_.weights[static_cast<size_t>(index)];
    plan::Weight made;
    made.name = weight.name;
    made.shape = weight.shape;
    made.format = weight.storage;
    const bool dense = weight.shape.size() == 1;
    made.packing = dense ? "dense" : kernels::packing_name(weight.storage);
    made.size_bytes = static_cast<uint64_t>(
        dense ? weight.shape[0] * kElementBytes
              : kernels::packed_bytes(weight.storage, weight.shape[0], weight.shape[1]));
    at = static_cast<int32_t>(out_.weights.size());
    out_.weights.push_back(std::move(made));
    out_.weight_index.push_back(index);
  }
  places_[static_cast<size_t>(id.value)] = {true, {plan::OperandKind::kWeight, at, 0}};
}

void Context::bind_view(ir::ValueId id, ir::ValueId of, int64_t offset_bytes) {
  plan::OperandRef ref = place(of);
  ref.offset_bytes += offset_bytes;
  places_[static_cast<size_t>(id.value)] = {true, ref};
}

void Context::bind_buffer(ir::ValueId id) {
  const plan::RowCount rows = row_count(id);
  out_.program.buffers.push_back({rows, width(id) * kElementBytes, 0});
  places_[static_cast<size_t>(id.value)] = {
      true, {plan::OperandKind::kBuffer, static_cast<int32_t>(out_.program.buffers.size() - 1), 0}};
}

void Context::add_output(ir::ValueId id, const std::string& name) {
  const plan::OperandRef ref = place(id);
  KVERN_CHECK(ref.kind == plan::OperandKind::kBuffer && ref.offset_bytes == 0);
  out_.program.outputs.push_back({name, ref.index});
}

plan::OperandRef Context::place(ir::ValueId id) const {
  const Place& p = places_[static_cast<size_t>(id.value)];
  KVERN_CHECK(p.bound, "value %{} has no place", graph_.value(id).name);
  return p.ref;
}

const plan::Weight& Context::weight(ir::ValueId id) const {
  const plan::OperandRef ref = place(id);
  KVERN_CHECK(ref.kind == plan::OperandKind::kWeight, "value %{} is not a weight",
              graph_.value(id).name);
  return out_.weights[static_cast<size_t>(ref.index)];
}

void Context::emit_fields(const char* family, std::vector<NamedField> desc,
                          const std::vector<ir::ValueId>& inputs,
                          const std::vector<ir::ValueId>& outputs) {
  plan::Instruction instruction;
  instruction.family = family;
  // Names are for people; numbers are what the plan keeps.
  instruction.desc = std::move(desc);
  for (const ir::ValueId id : inputs) instruction.inputs.push_back(place(id));
  for (const ir::ValueId id : outputs) {
    bind_buffer(id);
    instruction.outputs.push_back(place(id));
  }
  instruction.source =
      outputs.empty() ? graph_.value(inputs[0]).name : graph_.value(outputs[0]).name;
  out_.program.instructions.push_back(std::move(instruction));
}

void Context::fill_slot(int64_t slot, kernels::KvSlotDesc& desc) const {
  KVERN_CHECK(slot >= 0 && slot < static_cast<int64_t>(layout_.slots().size()), "no KV slot {}",
              slot);
  const plan::KvSlot& s = layout_.slots()[static_cast<size_t>(slot)];
  const plan::KvPlacement& p = layout_.placement(static_cast<int>(slot));
  const plan::KvGroup& group = layout_.groups()[static_cast<size_t>(p.kv_group)];
  desc.kv_group = p.kv_group;
  desc.kv_heads = s.kv_heads;
  desc.dim_k = s.dim_k;
  desc.dim_v = s.dim_v;
  desc.k_storage = s.k_format.storage;
  desc.v_storage = s.v_format.storage;
  desc.k_scale_group = s.k_format.group;
  desc.v_scale_group = s.v_format.group;
  desc.k_offset = p.k_offset;
  desc.k_head_bytes = p.k_head_bytes;
  desc.k_token_bytes = p.k_token_bytes;
  desc.k_scale_offset = p.k_scale_offset;
  desc.k_scale_token_bytes = p.k_scale_token_bytes;
  desc.v_offset = p.v_offset;
  desc.v_head_bytes = p.v_head_bytes;
  desc.v_token_bytes = p.v_token_bytes;
  desc.v_scale_offset = p.v_scale_offset;
  desc.v_scale_token_bytes = p.v_scale_token_bytes;
  desc.page_bytes = group.page_bytes;
  desc.page_tokens = group.page_tokens;
}

}  // namespace kvern::lower
