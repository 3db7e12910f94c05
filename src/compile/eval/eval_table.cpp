#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"

namespace kvern::eval {
namespace {

struct Entry {
  const ir::OpSchema* op;
  EvalFn run;
};

constexpr Entry kEvals[] = {
    {&ir::ops::kEmbedding, eval_embedding},
    {&ir::ops::kGatherRows, eval_gather_rows},
    {&ir::ops::kSplit, eval_split},
    {&ir::ops::kAdd, eval_add},
    {&ir::ops::kMul, eval_mul},
    {&ir::ops::kSilu, eval_silu},
    {&ir::ops::kSiluMul, eval_silu_mul},
    {&ir::ops::kGeluTanh, eval_gelu_tanh},
    {&ir::ops::kGeluTanhMul, eval_gelu_tanh_mul},
    {&ir::ops::kGeluErf, eval_gelu_erf},
    {&ir::ops::kGeluErfMul, eval_gelu_erf_mul},
    {&ir::ops::kRelu, eval_relu},
    {&ir::ops::kQuickGelu, eval_quick_gelu},
    {&ir::ops::kTanh, eval_tanh},
    {&ir::ops::kSigmoid, eval_sigmoid},
    {&ir::ops::kMap, eval_map},
    {&ir::ops::kSelect, eval_select},
    {&ir::ops::kRowReduce, eval_row_reduce},
    {&ir::ops::kScale, eval_scale},
    {&ir::ops::kSoftcap, eval_softcap},
    {&ir::ops::kLayerNorm, eval_layer_norm},
    {&ir::ops::kLinear, eval_linear},
    {&ir::ops::kRmsNorm, eval_rms_norm},
    {&ir::ops::kAddRmsNorm, eval_add_rms_norm},
    {&ir::ops::kRopeFrequencies, eval_rope_frequencies},
    {&ir::ops::kRopeAngles, eval_rope_angles},
    {&ir::ops::kRope, eval_rope},
};

}  // namespace

EvalFn find_eval(const ir::OpSchema* op) {
  for (const Entry& entry : kEvals) {
    if (entry.op == op) return entry.run;
  }
  return nullptr;
}

}  // namespace kvern::eval
