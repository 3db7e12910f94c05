#include "kernels/kv_attention.h"

#include <cmath>

#include "kernels/operands.h"

namespace kvern::kernels {
namespace {

void require(bool ok, const char* what) {
  if (!ok) {
    throw Error(Code::kInvalidPlan, fmt::format("kv_attention: wants {}", what));
  }
}

}  // namespace

void KvAttentionFamily::validate(const Desc& desc) {
  validate_kv_slot(desc);
  require(desc.heads >= 1 && desc.heads <= 65536 && desc.heads % desc.kv_heads == 0,
          "query heads that divide evenly among KV heads");
  require(std::isfinite(desc.scale), "a finite scale");
  require(std::isfinite(desc.softcap) && desc.softcap >= 0.0f, "a finite softcap of at least 0");
  require(desc.mask <= AttentionMask::kWindow, "a causal or window mask");
  require(desc.mask != AttentionMask::kWindow || desc.window >= 1, "a window of at least 1 token");
}

KvAttentionArgs KvAttentionFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)), 1);
  const Operand& q = call.inputs[0];
  const Operand& y = call.outputs[0];
  KVERN_CHECK(call.step != nullptr, "kv_attention: no step");
  KVERN_CHECK(q.rows >= call.step->num_tokens && y.rows >= call.step->num_tokens,
              "kv_attention: {} rows of q and {} of y, step has {}", q.rows, y.rows,
              call.step->num_tokens);
  return {.q = data_of<const float>(q),
          .y = data_of<float>(y),
          .q_stride = stride_of(q, int64_t{desc.heads} * desc.dim_k),
          .y_stride = stride_of(y, int64_t{desc.heads} * desc.dim_v),
          .step = call.step,
          .stream = call.stream,
          .sinks = desc.has_sinks ? data_of<const float>(call.inputs[1]) : nullptr,
          .alibi = desc.has_alibi ? data_of<const float>(call.inputs.back()) : nullptr};
}

}  // namespace kvern::kernels
