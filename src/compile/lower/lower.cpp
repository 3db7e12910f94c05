#include "compile/lower/lower.h"

#include <fmt/format.h>

#include "base/check.h"
#include "compile/ir/ops.h"
#include "compile/lower/context.h"
#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/map.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/row_reduce.h"
#include "kernels/select.h"

namespace kvern::lower {
namespace {

using ir::Node;
namespace ops = ir::ops;

void lower_input(Context& c, const Node& n) {
  c.bind_step_input(n.outputs[0], n.attrs.as<ir::InputAttrs>().name);
}

void lower_weight(Context& c, const Node& n) {
  c.bind_weight(n.outputs[0], n.attrs.as<ir::WeightAttrs>().name);
}

void lower_output(Context& c, const Node& n) {
  c.add_output(n.inputs[0], n.attrs.as<ir::OutputAttrs>().name);
}

// No kernel: every part is a view into the rows it was cut from.
void lower_split(Context& c, const Node& n) {
  int64_t offset_bytes = 0;
  for (const ir::ValueId part : n.outputs) {
    c.bind_view(part, n.inputs[0], offset_bytes);
    offset_bytes += c.width(part) * static_cast<int64_t>(sizeof(float));
  }
}

void lower_embedding(Context& c, const Node& n) {
  const plan::Weight& table = c.weight(n.inputs[1]);
  const QuantFormat& f = table.format;
  kernels::EmbeddingDesc desc{table.shape[0], table.shape[1], f.storage,
                              f.group,        f.scale,        f.has_min};
  c.emit("embedding", desc, n.inputs, n.outputs);
}

void lower_linear(Context& c, const Node& n) {
  const plan::Weight& w = c.weight(n.inputs[1]);
  const QuantFormat& f = w.format;
  kernels::LinearDesc desc{w.shape[0], w.shape[1], f.storage,           f.group,
                           f.scale,    f.has_min,  n.inputs.size() == 3};
  desc.activations = c.activations_of(n.outputs[0]);
  c.emit("linear", desc, n.inputs, n.outputs);
}

void lower_rms_norm(Context& c, const Node& n) {
  const auto& a = n.attrs.as<ir::NormAttrs>();
  const kernels::RmsNormDesc desc{c.width(n.inputs[0]) / a.heads, a.eps, n.op == &ops::kAddRmsNorm,
                                  a.heads};
  c.emit("rms_norm", desc, n.inputs, n.outputs);
}

void lower_layer_norm(Context& c, const Node& n) {
  const kernels::LayerNormDesc desc{c.width(n.inputs[0]), n.attrs.as<ir::NormAttrs>().eps,
                                    n.inputs.size() == 3};
  c.emit("layer_norm", desc, n.inputs, n.outputs);
}

template <kernels::ElementwiseOp kOp>
void lower_elementwise(Context& c, const Node& n) {
  c.emit("elementwise", kernels::ElementwiseDesc{kOp, c.width(n.inputs[0])}, n.inputs, n.outputs);
}

template <kernels::ElementwiseOp kOp>
void lower_by_factor(Context& c, const Node& n) {
  const kernels::ElementwiseDesc desc{kOp, c.width(n.inputs[0]),
                                      n.attrs.as<ir::FactorAttrs>().factor};
  c.emit("elementwise", desc, n.inputs, n.outputs);
}

void lower_map(Context& c, const Node& n) {
  kernels::MapDesc desc;
  desc.dim = c.width(n.outputs[0]);
  for (const ir::ValueId id : n.inputs) {
    desc.widths.push_back(c.width(id));
    desc.vectors.push_back(c.type(id).all_constant() ? 1 : 0);
  }
  MapCode code = encode_map(parse_map_program(n.attrs.as<ir::MapAttrs>().program));
  desc.code = std::move(code.code);
  desc.constants = std::move(code.constants);
  c.emit("map", desc, n.inputs, n.outputs);
}

bool is_output(const Context& c, ir::ValueId id) {
  for (const size_t user : c.graph().users(id)) {
    if (c.graph().nodes()[user].op == &ops::kOutput) return true;
  }
  return false;
}

// One stretch of columns is a view, as a part of a split is; what the caller reads has a buffer.
void lower_select(Context& c, const Node& n) {
  const auto& runs = n.attrs.as<ir::SelectAttrs>().runs;
  if (runs.size() == 3 && (runs[2] == 1 || runs[1] == 1) && !is_output(c, n.outputs[0])) {
    return c.bind_view(n.outputs[0], n.inputs[0], runs[0] * static_cast<int64_t>(sizeof(float)));
  }
  c.emit("select", kernels::SelectDesc{c.width(n.inputs[0]), runs}, n.inputs, n.outputs);
}

void lower_row_reduce(Context& c, const Node& n) {
  const auto& a = n.attrs.as<ir::RowReduceAttrs>();
  const kernels::RowReduceDesc desc{c.width(n.inputs[0]), a.groups,
                                    static_cast<kernels::ReduceKind>(a.kind)};
  c.emit("row_reduce", desc, n.inputs, n.outputs);
}

void lower_gather_rows(Context& c, const Node& n) {
  c.emit("gather_rows", kernels::GatherRowsDesc{c.width(n.inputs[0])}, n.inputs, n.outputs);
}

void lower_rope_angles(Context& c, const Node& n) {
  c.emit("rope_angles", kernels::RopeAnglesDesc{c.width(n.outputs[0])}, n.inputs, n.outputs);
}

void lower_rope(Context& c, const Node& n) {
  const auto& a = n.attrs.as<ir::RopeAttrs>();
  const kernels::RopeDesc desc{static_cast<int32_t>(a.heads), static_cast<int32_t>(a.head_dim),
                               static_cast<int32_t>(2 * c.width(n.inputs[1])), a.interleaved};
  c.emit("rope", desc, n.inputs, n.outputs);
}

void lower_kv_append(Context& c, const Node& n) {
  kernels::KvAppendDesc desc;
  c.fill_slot(n.attrs.as<ir::KvAppendAttrs>().slot, desc);
  c.emit("kv_append", desc, n.inputs, {});
}

void lower_qkv_rope_append(Context& c, const Node& n) {
  const auto& a = n.attrs.as<ir::QkvRopeAppendAttrs>();
  kernels::KvAppendDesc desc;
  c.fill_slot(a.slot, desc);
  desc.rope = true;
  desc.heads = static_cast<int32_t>(a.heads);
  desc.rotary_dim = static_cast<int32_t>(2 * c.width(n.inputs[3]));
  desc.interleaved = a.interleaved;
  c.emit("kv_append", desc, n.inputs, {n.outputs[0]});
}

void lower_kv_attention(Context& c, const Node& n) {
  const auto& a = n.attrs.as<ir::KvAttentionAttrs>();
  if (a.mask != ir::MaskKind::kCausal && a.mask != ir::MaskKind::kWindow) {
    throw Error(Code::kUnsupported,
                fmt::format("lowering: attention '{}' has a mask that is neither causal nor a "
                            "window: not supported yet",
                            c.graph().value(n.outputs[0]).name));
  }
  kernels::KvAttentionDesc desc;
  c.fill_slot(a.slot, desc);
  desc.heads = static_cast<int32_t>(a.heads);
  desc.scale = a.scale;
  desc.mask = a.mask == ir::MaskKind::kWindow ? kernels::AttentionMask::kWindow
                                              : kernels::AttentionMask::kCausal;
  desc.window = static_cast<int32_t>(a.window);
  desc.softcap = a.softcap;
  desc.has_sinks = a.has_sinks;
  desc.has_alibi = a.has_alibi;
  std::vector<ir::ValueId> inputs = n.inputs;
  inputs.erase(inputs.begin() + 1);  // !kv is the order of the program
  c.emit("kv_attention", desc, inputs, n.outputs);
}

struct Rule {
  const ir::OpSchema* op;
  void (*lower)(Context&, const Node&);
};

// rope_frequencies is missing: it has constant inputs only and constant folding took it away.
constexpr Rule kRules[] = {
    {&ops::kInput, lower_input},
    {&ops::kWeight, lower_weight},
    {&ops::kOutput, lower_output},
    {&ops::kSplit, lower_split},
    {&ops::kEmbedding, lower_embedding},
    {&ops::kLinear, lower_linear},
    {&ops::kRmsNorm, lower_rms_norm},
    {&ops::kAddRmsNorm, lower_rms_norm},
    {&ops::kLayerNorm, lower_layer_norm},
    {&ops::kAdd, lower_elementwise<kernels::ElementwiseOp::kAdd>},
    {&ops::kMul, lower_elementwise<kernels::ElementwiseOp::kMul>},
    {&ops::kSilu, lower_elementwise<kernels::ElementwiseOp::kSilu>},
    {&ops::kSiluMul, lower_elementwise<kernels::ElementwiseOp::kSiluMul>},
    {&ops::kGeluTanh, lower_elementwise<kernels::ElementwiseOp::kGeluTanh>},
    {&ops::kGeluTanhMul, lower_elementwise<kernels::ElementwiseOp::kGeluTanhMul>},
    {&ops::kGeluErf, lower_elementwise<kernels::ElementwiseOp::kGeluErf>},
    {&ops::kGeluErfMul, lower_elementwise<kernels::ElementwiseOp::kGeluErfMul>},
    {&ops::kRelu, lower_elementwise<kernels::ElementwiseOp::kRelu>},
    {&ops::kQuickGelu, lower_elementwise<kernels::ElementwiseOp::kQuickGelu>},
    {&ops::kTanh, lower_elementwise<kernels::ElementwiseOp::kTanh>},
    {&ops::kSigmoid, lower_elementwise<kernels::ElementwiseOp::kSigmoid>},
    {&ops::kMap, lower_map},
    {&ops::kSelect, lower_select},
    {&ops::kRowReduce, lower_row_reduce},
    {&ops::kScale, lower_by_factor<kernels::ElementwiseOp::kScale>},
    {&ops::kSoftcap, lower_by_factor<kernels::ElementwiseOp::kSoftcap>},
    {&ops::kGatherRows, lower_gather_rows},
    {&ops::kRopeAngles, lower_rope_angles},
    {&ops::kRope, lower_rope},
    {&ops::kKvAppend, lower_kv_append},
    {&ops::kQkvRopeAppend, lower_qkv_rope_append},
    {&ops::kKvAttention, lower_kv_attention},
};

}  // namespace

Lowered program(const ir::Graph& graph, const plan::KvLayout& layout, Activations activations) {
  Lowered out;
  Context context(graph, layout, activations, out);
  for (const Node& node : graph.nodes()) {
    const Rule* found = nullptr;
    for (const Rule& rule : kRules) {
      if (rule.op == node.op) found = &rule;
    }
    if (found == nullptr) {
      throw Error(Code::kUnsupported,
                  fmt::format("lowering: no kernel family computes op '{}'", node.op->name));
    }
    found->lower(context, node);
  }
  return out;
}

}  // namespace kvern::lower
