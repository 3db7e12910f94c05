#include "kernels/rms_norm.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void RmsNormFamily::validate(const Desc& desc) {
  constexpr int64_t kLargest = 1 << 24;  // their product does not overflow
  const bool heads = desc.heads == 1 || (desc.heads >= 1 && desc.heads <= kLargest &&
                                         desc.dim <= kLargest && !desc.has_residual);
  if (desc.dim >= 1 && desc.eps >= 0.0f && desc.eps <= 1.0f && heads) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("rms_norm: wants dim >= 1, eps in [0, 1] and heads >= 1 (1 with a "
                          "residual), got {}, {} and {}",
                          desc.dim, desc.eps, desc.heads));
}

RmsNormArgs RmsNormFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)),
                 static_cast<size_t>(num_outputs(desc)));
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs.back();
  RmsNormArgs args{.x = data_of<const float>(x),
                   .residual = nullptr,
                   .gamma = data_of<const float>(call.inputs.back()),
                   .sum = nullptr,
                   .y = data_of<float>(y),
                   .rows = y.rows,
                   .x_stride = stride_of(x, desc.row_dim()),
                   .residual_stride = 0,
                   .sum_stride = 0,
                   .y_stride = stride_of(y, desc.row_dim()),
                   .stream = call.stream};
  KVERN_DCHECK(x.rows >= y.rows);
  if (desc.has_residual) {
    args.residual = data_of<const float>(call.inputs[1]);
    args.residual_stride = stride_of(call.inputs[1], desc.dim);
    args.sum = data_of<float>(call.outputs[0]);
    args.sum_stride = stride_of(call.outputs[0], desc.dim);
  }
  return args;
}

}  // namespace kvern::kernels
