#include "kernels/select.h"

#include "kernels/operands.h"

namespace kvern::kernels {

int64_t SelectDesc::out_dim() const {
  int64_t total = 0;
  for (size_t i = 1; i < runs.size(); i += 3) total += runs[i];
  return total;
}

void SelectFamily::validate(const Desc& desc) {
  const auto require = [](bool ok, const std::string& what) {
    if (!ok) throw Error(Code::kInvalidPlan, fmt::format("select: {}", what));
  };
  constexpr int64_t kMost = int64_t{1} << 31;  // products of two of these fit
  require(desc.dim >= 1 && desc.dim <= kMost, fmt::format("rows of {} elements", desc.dim));
  require(!desc.runs.empty() && desc.runs.size() % 3 == 0,
          fmt::format("{} numbers are no runs of three", desc.runs.size()));
  int64_t total = 0;
  for (size_t i = 0; i < desc.runs.size(); i += 3) {
    const int64_t start = desc.runs[i];
    const int64_t count = desc.runs[i + 1];
    const int64_t stride = desc.runs[i + 2];
    const bool sane = start >= 0 && start < desc.dim && count >= 1 && count <= kMost - total &&
                      stride >= -desc.dim && stride <= desc.dim;
    const int64_t last = sane ? start + (count - 1) * stride : -1;
    require(last >= 0 && last < desc.dim, fmt::format("run [{}, {}, {}] leaves rows of {} elements",
                                                      start, count, stride, desc.dim));
    total += count;
  }
}

SelectArgs SelectFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, 1, 1);
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  return {.x = data_of<const float>(x),
          .y = data_of<float>(y),
          .rows = y.rows,
          .x_stride = stride_of(x, desc.dim),
          .y_stride = stride_of(y, desc.out_dim()),
          .stream = call.stream};
}

}  // namespace kvern::kernels
