#include "kernels/linear.h"

#include <fmt/format.h>

#include "kernels/operands.h"
#include "kernels/pack.h"

namespace kvern::kernels {

void LinearFamily::validate(const Desc& desc) {
  check_packable(desc.format(), desc.n, desc.k);
  if (desc.activations != Activations::kDefault && desc.activations != Activations::kInt8) {
    throw Error(Code::kInvalidPlan,
                fmt::format("linear [{}, {}]: activations {}; 0 (default) and 1 (int8) are known",
                            desc.n, desc.k, static_cast<int>(desc.activations)));
  }
}

LinearArgs LinearFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, static_cast<size_t>(num_inputs(desc)), 1);
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  KVERN_CHECK(x.rows == y.rows, "linear: {} rows of x, {} of y", x.rows, y.rows);
  LinearArgs args{};
  args.x = data_of<const float>(x);
  args.w = call.inputs[1].data;
  args.bias = desc.has_bias ? data_of<const float>(call.inputs[2]) : nullptr;
  args.y = data_of<float>(y);
  args.rows = x.rows;
  args.x_stride = stride_of(x, desc.k);
  args.y_stride = stride_of(y, desc.n);
  args.stream = call.stream;
  return args;
}

}  // namespace kvern::kernels
