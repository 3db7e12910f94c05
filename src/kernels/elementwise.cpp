#include "kernels/elementwise.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void ElementwiseFamily::validate(const Desc& desc) {
  const bool factor =
      desc.op == ElementwiseOp::kSoftcap ? desc.factor > 0 : desc.factor == desc.factor;
  if (desc.dim >= 1 && static_cast<int>(desc.op) < kNumElementwiseOps && factor) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("elementwise: wants dim >= 1, op in [0, {}) and a factor, which for a "
                          "softcap is positive; got {}, {} and {}",
                          kNumElementwiseOps, desc.dim, static_cast<int>(desc.op), desc.factor));
}

ElementwiseArgs ElementwiseFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)), 1);
  const Operand& a = call.inputs[0];
  const Operand& y = call.outputs[0];
  ElementwiseArgs args{.a = data_of<const float>(a),
                       .b = nullptr,
                       .y = data_of<float>(y),
                       .rows = y.rows,
                       .a_stride = stride_of(a, desc.dim),
                       .b_stride = 0,
                       .y_stride = stride_of(y, desc.dim),
                       .stream = call.stream};
  if (call.inputs.size() == 2) {
    args.b = data_of<const float>(call.inputs[1]);
    args.b_stride = stride_of(call.inputs[1], desc.dim);
  }
  return args;
}

}  // namespace kvern::kernels
