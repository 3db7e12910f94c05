// One function per op: the values of its outputs from the values of its inputs. All in f32, sums in
// ascending order, so that a row's result does not depend on how many rows there are.
#pragma once

#include <span>
#include <vector>

#include "compile/eval/eval.h"

namespace kvern::eval {

using Inputs = std::span<const HostTensor* const>;
using EvalFn = std::vector<HostTensor> (*)(const ir::Node& node, Inputs inputs);

// The function of a pure op; nullptr for ops with state and for the graph's edges.
EvalFn find_eval(const ir::OpSchema* op);

HostTensor f32_tensor(Shape shape);

std::vector<HostTensor> eval_embedding(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_gather_rows(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_split(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_add(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_mul(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_silu(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_silu_mul(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_gelu_tanh(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_gelu_tanh_mul(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_gelu_erf(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_gelu_erf_mul(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_relu(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_quick_gelu(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_tanh(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_sigmoid(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_scale(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_softcap(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_map(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_select(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_row_reduce(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_layer_norm(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_linear(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_rms_norm(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_add_rms_norm(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_rope_frequencies(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_rope_angles(const ir::Node& node, Inputs in);
std::vector<HostTensor> eval_rope(const ir::Node& node, Inputs in);

// Ops with state.
using StateFn = std::vector<HostTensor> (*)(const ir::Node& node, Inputs inputs, KvState& kv);
StateFn find_state_eval(const ir::OpSchema* op);

}  // namespace kvern::eval
