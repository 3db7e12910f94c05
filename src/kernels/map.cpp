#include "kernels/map.h"

#include "kernels/operands.h"

namespace kvern::kernels {

void MapFamily::validate(const Desc& desc) {
  const auto require = [](bool ok, const std::string& what) {
    if (!ok) throw Error(Code::kInvalidPlan, fmt::format("map: {}", what));
  };
  constexpr int64_t kMostDim = int64_t{1} << 32;
  require(desc.dim >= 1 && desc.dim <= kMostDim, fmt::format("rows of {} elements", desc.dim));
  const size_t num_inputs = desc.widths.size();
  require(num_inputs >= 1 && num_inputs <= kMaxMapInputs && desc.vectors.size() == num_inputs,
          fmt::format("{} widths and {} kinds; 1 to {} inputs are wanted", num_inputs,
                      desc.vectors.size(), kMaxMapInputs));
  for (size_t i = 0; i < num_inputs; ++i) {
    require(desc.widths[i] >= 1 && desc.dim % desc.widths[i] == 0 && desc.vectors[i] >= 0 &&
                desc.vectors[i] <= 1,
            fmt::format("input {} of width {} and kind {} does not fit rows of {}", i,
                        desc.widths[i], desc.vectors[i], desc.dim));
  }
  const std::string problem =
      map_problem(decode_map(desc.code, desc.constants), static_cast<int>(num_inputs));
  require(problem.empty(), fmt::format("its program has {}", problem));
}

MapArgs MapFamily::bind(const Desc& desc, const Call& call) {
  check_operands(call, kName, desc.widths.size(), 1);
  const Operand& y = call.outputs[0];
  MapArgs args{.inputs = {},
               .y = data_of<float>(y),
               .rows = y.rows,
               .y_stride = stride_of(y, desc.dim),
               .stream = call.stream};
  for (size_t i = 0; i < desc.widths.size(); ++i) {
    const Operand& x = call.inputs[i];
    args.inputs[i] = {data_of<const float>(x),
                      desc.vectors[i] != 0 ? 0 : stride_of(x, desc.widths[i])};
  }
  return args;
}

}  // namespace kvern::kernels
