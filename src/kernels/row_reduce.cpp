#include "kernels/row_reduce.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void RowReduceFamily::validate(const Desc& desc) {
  if (desc.dim >= 1 && desc.groups >= 1 && desc.dim % desc.groups == 0 &&
      desc.kind <= ReduceKind::kMin) {
    return;
  }
  throw Error(Code::kInvalidPlan,
              fmt::format("row_reduce: wants groups that divide dim and a kind in [0, 4], got {} "
                          "groups of {} and kind {}",
                          desc.groups, desc.dim, static_cast<int>(desc.kind)));
}

RowReduceArgs RowReduceFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 1, 1);
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  return {.x = data_of<const float>(x),
          .y = data_of<float>(y),
          .rows = y.rows,
          .x_stride = stride_of(x, desc.dim),
          .y_stride = stride_of(y, desc.groups),
          .stream = call.stream};
}

}  // namespace kvern::kernels
