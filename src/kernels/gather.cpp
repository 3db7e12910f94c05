#include "kernels/gather.h"

#include "kernels/operands.h"
#include "kernels/pack.h"

namespace kvern::kernels {

void EmbeddingFamily::validate(const Desc& desc) {
  check_packable(desc.format(), desc.vocabulary, desc.dim);
}

EmbeddingArgs EmbeddingFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 2, 1);
  const Operand& y = call.outputs[0];
  return {.ids = data_of<const int32_t>(call.inputs[0]),
          .table = call.inputs[1].data,
          .y = data_of<float>(y),
          .rows = y.rows,
          .y_stride = stride_of(y, desc.dim),
          .stream = call.stream};
}

void GatherRowsFamily::validate(const Desc& desc) {
  if (desc.dim >= 1) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("gather_rows: wants a dim of at least 1, got {}", desc.dim));
}

GatherRowsArgs GatherRowsFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 2, 1);
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  return {.x = data_of<const float>(x),
          .rows = data_of<const int32_t>(call.inputs[1]),
          .y = data_of<float>(y),
          .x_rows = x.rows,
          .num_rows = y.rows,
          .x_stride = stride_of(x, desc.dim),
          .y_stride = stride_of(y, desc.dim),
          .stream = call.stream};
}

}  // namespace kvern::kernels
