// Every op of the IR. A new op: its schema beside its kin, its line here.
#include "compile/ir/ops.h"

namespace kvern::ir {
namespace {

constexpr const OpSchema* kAllOps[] = {
    &ops::kInput,         &ops::kWeight,     &ops::kOutput,      &ops::kEmbedding,
    &ops::kRmsNorm,       &ops::kAddRmsNorm, &ops::kLayerNorm,   &ops::kLinear,
    &ops::kSplit,         &ops::kAdd,        &ops::kMul,         &ops::kSilu,
    &ops::kSiluMul,       &ops::kGeluTanh,   &ops::kGeluTanhMul, &ops::kGeluErf,
    &ops::kGeluErfMul,    &ops::kScale,      &ops::kSoftcap,     &ops::kRopeFrequencies,
    &ops::kRopeAngles,    &ops::kRope,       &ops::kKvAppend,    &ops::kKvAttention,
    &ops::kQkvRopeAppend, &ops::kGatherRows, &ops::kMap,         &ops::kSelect,
    &ops::kRowReduce,     &ops::kRelu,       &ops::kQuickGelu,   &ops::kTanh,
    &ops::kSigmoid,
};

}  // namespace

std::span<const OpSchema* const> all_ops() {
  return kAllOps;
}

const OpSchema* find_op(std::string_view name) {
  for (const OpSchema* op : kAllOps) {
    if (name == op->name) return op;
  }
  return nullptr;
}

}  // namespace kvern::ir
