#include "kernels/layer_norm.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void LayerNormFamily::validate(const Desc& desc) {
  if (desc.dim >= 1 && desc.eps >= 0.0f && desc.eps <= 1.0f) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("layer_norm: wants dim >= 1 and eps in [0, 1], got {} and {}", desc.dim,
                          desc.eps));
}

LayerNormArgs LayerNormFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)), 1);
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  return {.x = data_of<const float>(x),
          .gamma = data_of<const float>(call.inputs[1]),
          .beta = desc.has_bias ? data_of<const float>(call.inputs[2]) : nullptr,
          .y = data_of<float>(y),
          .rows = y.rows,
          .x_stride = stride_of(x, desc.dim),
          .y_stride = stride_of(y, desc.dim),
          .stream = call.stream};
}

}  // namespace kvern::kernels
