// Rows chosen and cut.
#include <fmt/format.h>

#include <algorithm>

#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"
#include "kvern/error.h"

namespace kvern::eval {
namespace {

// y[i,:] = x[rows[i],:]; the indices come from outside and are checked.
HostTensor take_rows(const char* op, const HostTensor& x, const std::vector<int32_t>& rows) {
  const int64_t width = x.shape[1];
  HostTensor y = f32_tensor({static_cast<int64_t>(rows.size()), width});
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= x.shape[0]) {
      throw Error(Code::kInvalidArgument,
                  fmt::format("{}: index {} is outside [0, {})", op, rows[i], x.shape[0]));
    }
    std::copy_n(x.f32.begin() + rows[i] * width, width,
                y.f32.begin() + static_cast<int64_t>(i) * width);
  }
  return y;
}

}  // namespace

HostTensor f32_tensor(Shape shape) {
  HostTensor out;
  out.f32.resize(static_cast<size_t>(num_elements(shape)));
  out.shape = std::move(shape);
  return out;
}

std::vector<HostTensor> eval_embedding(const ir::Node& node, Inputs in) {
  return {take_rows(node.op->name, *in[1], in[0]->i32)};
}

std::vector<HostTensor> eval_gather_rows(const ir::Node& node, Inputs in) {
  return {take_rows(node.op->name, *in[0], in[1]->i32)};
}

std::vector<HostTensor> eval_split(const ir::Node& node, Inputs in) {
  const int64_t rows = in[0]->shape[0];
  const int64_t width = in[0]->shape[1];
  std::vector<HostTensor> out;
  int64_t begin = 0;
  for (const int64_t size : node.attrs.as<ir::SplitAttrs>().sizes) {
    HostTensor part = f32_tensor({rows, size});
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(in[0]->f32.begin() + r * width + begin, size, part.f32.begin() + r * size);
    }
    begin += size;
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace kvern::eval
