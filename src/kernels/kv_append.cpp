#include "kernels/kv_append.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void KvAppendFamily::validate(const Desc& desc) {
  validate_kv_slot(desc);
  if (!desc.rope) return;
  if (desc.heads >= 1 && desc.heads <= 65536 && desc.rotary_dim >= 2 && desc.rotary_dim % 2 == 0 &&
      desc.rotary_dim <= desc.dim_k) {
    return;
  }
  throw Error(Code::kInvalidPlan,
              fmt::format("kv_append: rope wants heads in [1, 65536] and an even rotary_dim in "
                          "[2, dim_k], got heads {}, rotary_dim {}, dim_k {}",
                          desc.heads, desc.rotary_dim, desc.dim_k));
}

KvAppendArgs KvAppendFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)),
                 static_cast<size_t>(num_outputs(desc)));
  KVERN_CHECK(call.step != nullptr, "kv_append: no step");
  const Operand& k = call.inputs[desc.rope ? 1 : 0];
  const Operand& v = call.inputs[desc.rope ? 2 : 1];
  KvAppendArgs args{};
  args.k = data_of<const float>(k);
  args.v = data_of<const float>(v);
  args.k_stride = stride_of(k, int64_t{desc.kv_heads} * desc.dim_k);
  args.v_stride = stride_of(v, int64_t{desc.kv_heads} * desc.dim_v);
  args.step = call.step;
  args.stream = call.stream;
  KVERN_CHECK(k.rows >= call.step->num_tokens && v.rows >= call.step->num_tokens,
              "kv_append: {} and {} rows of k and v, step has {}", k.rows, v.rows,
              call.step->num_tokens);
  if (!desc.rope) return args;
  const Operand& q = call.inputs[0];
  const Operand& q_out = call.outputs[0];
  const int64_t q_dim = int64_t{desc.heads} * desc.dim_k;
  args.q = data_of<const float>(q);
  args.cos = data_of<const float>(call.inputs[3]);
  args.sin = data_of<const float>(call.inputs[4]);
  args.q_out = data_of<float>(q_out);
  args.q_stride = stride_of(q, q_dim);
  args.q_out_stride = stride_of(q_out, q_dim);
  KVERN_CHECK(q.rows >= call.step->num_tokens && q_out.rows >= call.step->num_tokens,
              "kv_append: {} and {} rows of q, step has {}", q.rows, q_out.rows,
              call.step->num_tokens);
  return args;
}

}  // namespace kvern::kernels
