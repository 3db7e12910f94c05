#include "kernels/rope.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void RopeAnglesFamily::validate(const Desc& desc) {
  if (desc.half_dim >= 1 && desc.half_dim <= 65536) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("rope_angles: wants half_dim in [1, 65536], got {}", desc.half_dim));
}

RopeAnglesArgs RopeAnglesFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 2, 2);
  const Operand& cos = call.outputs[0];
  KVERN_DCHECK(stride_of(cos, desc.half_dim) == desc.half_dim || cos.rows <= 1, "cos is dense");
  return {.positions = data_of<const int32_t>(call.inputs[0]),
          .frequencies = data_of<const float>(call.inputs[1]),
          .cos = data_of<float>(cos),
          .sin = data_of<float>(call.outputs[1]),
          .rows = cos.rows,
          .stream = call.stream};
}

void RopeFamily::validate(const Desc& desc) {
  if (desc.heads >= 1 && desc.rotary_dim >= 2 && desc.rotary_dim % 2 == 0 &&
      desc.rotary_dim <= desc.head_dim) {
    return;
  }
  throw Error(Code::kInvalidPlan,
              fmt::format("rope: wants heads >= 1 and an even rotary_dim in [2, head_dim], got "
                          "heads {}, rotary_dim {}, head_dim {}",
                          desc.heads, desc.rotary_dim, desc.head_dim));
}

RopeArgs RopeFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 3, 1);
  const int64_t dim = int64_t{desc.heads} * desc.head_dim;
  const Operand& y = call.outputs[0];
  return {.x = data_of<const float>(call.inputs[0]),
          .cos = data_of<const float>(call.inputs[1]),
          .sin = data_of<const float>(call.inputs[2]),
          .y = data_of<float>(y),
          .rows = y.rows,
          .x_stride = stride_of(call.inputs[0], dim),
          .y_stride = stride_of(y, dim),
          .stream = call.stream};
}

}  // namespace kvern::kernels
