// Pad in its four modes, negative pads (which cut) included. Elements of any type.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/indices.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

struct Amount {
  int64_t before = 0, after = 0;
};

std::vector<Amount> amounts_of(const OpCall& call, int64_t rank) {
  const std::vector<int64_t> pads = call.has(1) ? integers_of(call, 1) : call.node.ints("pads");
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  axes = integers_of(call, 3, axes);
  if (pads.size() != 2 * axes.size()) {
    call.fail(fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  }
  std::vector<Amount> out(static_cast<size_t>(rank));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(normal_axis(call, axes[i], rank));
    out[axis] = {pads[i], pads[axes.size() + i]};
    for (const int64_t pad : {pads[i], pads[axes.size() + i]}) {
      if (pad < -(int64_t{1} << 40) || pad > (int64_t{1} << 40)) call.fail("a pad is too large");
    }
  }
  return out;
}

// Which element of a dim stands at `at`, that may lie outside; -1: the constant.
int64_t source_of(const std::string& mode, int64_t at, int64_t dim) {
  if (at >= 0 && at < dim) return at;
  if (mode == "edge") return std::clamp<int64_t>(at, 0, dim - 1);
  if (mode == "wrap") return ((at % dim) + dim) % dim;
  if (mode == "reflect") {
    if (dim == 1) return 0;
    const int64_t period = 2 * (dim - 1);
    const int64_t inside = ((at % period) + period) % period;
    return inside < dim ? inside : period - inside;
  }
  return -1;
}

// One dim after the other: a gather along it, with the constant where nothing is.
Array pad_dim(const Array& x, size_t axis, Amount pad, const std::string& mode,
              const std::byte* constant) {
  Shape shape = x.shape();
  const int64_t dim = shape[axis];
  shape[axis] = std::max<int64_t>(0, dim + pad.before + pad.after);
  Array out(x.type(), shape);
  if (out.count() == 0) return out;
  const size_t bytes = ir::element_bytes(x.type());
  const size_t block = static_cast<size_t>(product_of(shape, axis + 1, shape.size())) * bytes;
  const int64_t outer = product_of(shape, 0, axis);
  std::byte* to = out.mutable_bytes().data();
  const std::byte* from = x.bytes().data();
  for (int64_t o = 0; o < outer; ++o, from += static_cast<size_t>(dim) * block) {
    for (int64_t i = 0; i < shape[axis]; ++i, to += block) {
      const int64_t source = source_of(mode, i - pad.before, dim);
      if (source >= 0) {
        std::memcpy(to, from + static_cast<size_t>(source) * block, block);
        continue;
      }
      for (size_t at = 0; at < block; at += bytes) std::memcpy(to + at, constant, bytes);
    }
  }
  return out;
}

}  // namespace

Arrays eval_pad(const OpCall& call) {
  Array x = call.in(0);
  const std::string mode = call.node.s("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    call.fail(fmt::format("mode '{}' is not defined", mode));
  }
  Array constant;
  if (call.has(2)) {
    constant = call.in(2);
  } else if (x.type() == ElementType::kFloat) {
    constant = Array::scalar_f32(static_cast<float>(call.node.f("value", 0)));
  } else {
    constant = Array(x.type(), {});
  }
  if (constant.type() != x.type() || constant.count() != 1) {
    call.fail("the constant must be one element of the input's type");
  }
  const std::vector<Amount> amounts = amounts_of(call, x.rank());
  for (size_t d = 0; d < amounts.size(); ++d) {
    if (amounts[d].before == 0 && amounts[d].after == 0) continue;
    if (x.shape()[d] == 0 && mode != "constant") call.fail("an empty dim is padded with itself");
    x = pad_dim(x, d, amounts[d], mode, constant.bytes().data());
  }
  return {x};
}

}  // namespace kvern::eval
