// Ops that move elements of any type.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/eval_ops.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

size_t element_size(const Array& x) {
  return ir::element_bytes(x.type());
}

// Elements of `x` at begin, begin + step, … for each dim, `shape` of them.
Array cut(const Array& x, const Shape& shape, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& step) {
  Array out(x.type(), shape);
  if (out.count() == 0) return out;
  Strides strides = dense_strides(x.shape());
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    offset += begin[d] * strides[d];
    strides[d] *= step[d];
  }
  copy_strided(element_size(x), shape,
               x.bytes().data() + offset * static_cast<int64_t>(element_size(x)), strides,
               out.mutable_bytes().data(), dense_strides(shape));
  return out;
}

std::vector<int64_t> split_sizes(const OpCall& call, int64_t dim) {
  if (call.has(1)) return integers_of(call, 1);
  if (call.node.has("split")) return call.node.ints("split");
  const auto outputs = call.node.i("num_outputs", static_cast<int64_t>(call.node.outputs.size()));
  if (outputs < 1 || outputs > (int64_t{1} << 20)) call.fail("no outputs are wanted");
  // Before opset 18 uneven splits were no splits at all; nobody relied on the refusal.
  const int64_t each = ceil_div(dim, outputs);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < outputs; ++i) {
    sizes.push_back(std::clamp<int64_t>(dim - i * each, 0, each));
  }
  return sizes;
}

}  // namespace

Arrays eval_transpose(const OpCall& call) {
  const Array& x = call.in(0);
  std::vector<int64_t> perm(x.shape().size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (call.node.has("perm")) perm = call.node.ints("perm");
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool whole = sorted.size() == x.shape().size();
  for (size_t d = 0; d < sorted.size() && whole; ++d) whole = sorted[d] == static_cast<int64_t>(d);
  if (!whole) {
    call.fail(fmt::format("perm {} is not an order of {} dims", to_string(perm), x.rank()));
  }
  return {transposed(x, perm)};
}

Arrays eval_concat(const OpCall& call) {
  const Array& first = call.in(0);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 1), first.rank()));
  Shape shape = first.shape();
  shape[axis] = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Array& x = call.in(i);
    bool fits = x.type() == first.type() && x.rank() == first.rank();
    for (size_t d = 0; d < shape.size() && fits; ++d) fits = d == axis || x.shape()[d] == shape[d];
    if (!fits) {
      call.fail(fmt::format("input {} is {} {}, which does not go on {} {} along axis {}", i,
                            ir::element_type_name(x.type()), to_string(x.shape()),
                            ir::element_type_name(first.type()), to_string(first.shape()), axis));
    }
    // Two dims below 2^62 have a sum; the Array refuses what is too large.
    shape[axis] = std::min(shape[axis] + x.shape()[axis], int64_t{1} << 62);
  }
  Array out(first.type(), shape);
  const Strides strides = dense_strides(shape);
  std::byte* to = out.mutable_bytes().data();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Array& x = call.in(i);
    if (x.count() == 0) continue;
    copy_strided(element_size(x), x.shape(), x.bytes().data(), dense_strides(x.shape()), to,
                 strides);
    to += x.shape()[axis] * strides[axis] * static_cast<int64_t>(element_size(x));
  }
  return {out};
}

Arrays eval_split(const OpCall& call) {
  const Array& x = call.in(0);
  const auto axis = static_cast<size_t>(normal_axis(call, call.node.i("axis", 0), x.rank()));
  const std::vector<int64_t> sizes = split_sizes(call, x.shape()[axis]);
  Arrays out;
  std::vector<int64_t> begin(x.shape().size(), 0);
  const std::vector<int64_t> step(x.shape().size(), 1);
  int64_t left = x.shape()[axis];
  for (const int64_t size : sizes) {
    if (size < 0 || size > left) break;
    left -= size;
    Shape shape = x.shape();
    shape[axis] = size;
    out.push_back(cut(x, shape, begin, step));
    begin[axis] += size;
  }
  if (left != 0 || out.size() != sizes.size()) {
    call.fail(fmt::format("parts {} do not make {}", to_string(sizes), x.shape()[axis]));
  }
  return out;
}

Arrays eval_slice(const OpCall& call) {
  const Array& x = call.in(0);
  const bool old = call.node.opset < 10;
  const auto starts = old ? call.node.ints("starts") : integers_of(call, 1);
  const auto ends = old ? call.node.ints("ends") : integers_of(call, 2);
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = old ? call.node.ints("axes", axes) : integers_of(call, 3, axes);
  const auto steps = integers_of(call, 4, std::vector<int64_t>(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    call.fail("starts, ends, axes and steps are of several lengths");
  }
  Shape shape = x.shape();
  std::vector<int64_t> begin(shape.size(), 0);
  std::vector<int64_t> step(shape.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(normal_axis(call, axes[i], x.rank()));
    const int64_t dim = x.shape()[axis];
    if (steps[i] == 0) call.fail("a step is 0");
    // Beyond dim in either direction a step ends the walk; and -INT64_MIN does not exist.
    const int64_t by = std::clamp<int64_t>(steps[i], -dim - 1, dim + 1);
    const auto from_end = [dim](int64_t at) { return at < 0 ? at + dim : at; };
    const int64_t low = by > 0 ? 0 : -1;
    const int64_t high = by > 0 ? dim : dim - 1;
    // A start below 0 after counting from the end is the first element in either direction.
    const int64_t from = std::clamp<int64_t>(from_end(starts[i]), 0, std::max<int64_t>(high, 0));
    const int64_t to = std::clamp<int64_t>(from_end(ends[i]), low, std::max(high, low));
    begin[axis] = from;
    step[axis] = by;
    const int64_t span = by > 0 ? to - from : from - to;
    shape[axis] = dim == 0 ? 0 : std::max<int64_t>(0, ceil_div(span, std::abs(by)));
  }
  return {cut(x, shape, begin, step)};
}

Arrays eval_expand(const OpCall& call) {
  const Array& x = call.in(0);
  Shape shape = integers_of(call, 1);
  if (shape.size() < x.shape().size())
    shape.insert(shape.begin(), x.shape().size() - shape.size(), 1);
  const size_t skipped = shape.size() - x.shape().size();
  for (size_t d = 0; d < x.shape().size(); ++d) {
    int64_t& dim = shape[skipped + d];
    if (dim == 1) dim = x.shape()[d];
    if (x.shape()[d] != dim && x.shape()[d] != 1) {
      call.fail(fmt::format("{} does not expand to {}", to_string(x.shape()), to_string(shape)));
    }
  }
  if (shape == x.shape()) return {x};
  Array out(x.type(), shape);
  if (out.count() == 0) return {out};
  copy_strided(element_size(x), shape, x.bytes().data(), broadcast_strides(x.shape(), shape),
               out.mutable_bytes().data(), dense_strides(shape));
  return {out};
}

Arrays eval_tile(const OpCall& call) {
  const Array& x = call.in(0);
  const std::vector<int64_t> repeats = integers_of(call, 1);
  if (repeats.size() != x.shape().size()) call.fail("repeats must name every dim");
  // [d0, d1] seen as [r0, d0, r1, d1], with the repetitions standing still.
  Shape shape, walked;
  Strides strides;
  const Strides dense = dense_strides(x.shape());
  for (size_t d = 0; d < repeats.size(); ++d) {
    const auto dim = repeats[d] < 0 ? std::nullopt
                                    : checked_mul(static_cast<uint64_t>(repeats[d]),
                                                  static_cast<uint64_t>(x.shape()[d]));
    if (!dim || *dim > (uint64_t{1} << 62)) call.fail("a repetition is negative or too large");
    shape.push_back(static_cast<int64_t>(*dim));
    walked.insert(walked.end(), {repeats[d], x.shape()[d]});
    strides.insert(strides.end(), {0, dense[d]});
  }
  Array out(x.type(), shape);
  if (out.count() == 0) return {out};
  copy_strided(element_size(x), walked, x.bytes().data(), strides, out.mutable_bytes().data(),
               dense_strides(walked));
  return {out};
}

Arrays eval_trilu(const OpCall& call) {
  const Array& x = call.in(0);
  if (x.rank() < 2) call.fail("a matrix is wanted");
  const std::vector<int64_t> given = integers_of(call, 1, {0});
  if (given.size() != 1) call.fail("k must be one number");
  const int64_t rows = x.shape()[x.shape().size() - 2], columns = x.shape().back();
  const int64_t k = std::clamp<int64_t>(given[0], -rows - 1, columns + 1);
  const bool upper = call.node.i("upper", 1) != 0;
  if (x.type() == ElementType::kSymbol) call.unsupported("zeros among symbols");
  Array out = x;
  const size_t size = element_size(x);
  std::byte* at = out.mutable_bytes().data();
  const int64_t num_rows = columns == 0 ? 0 : x.count() / columns;
  for (int64_t r = 0; r < num_rows; ++r, at += static_cast<size_t>(columns) * size) {
    const int64_t diagonal = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, columns);
    const int64_t begin = upper ? 0 : diagonal;
    const int64_t end = upper ? diagonal : columns;
    std::fill(at + static_cast<size_t>(begin) * size, at + static_cast<size_t>(end) * size,
              std::byte{0});
  }
  return {out};
}

}  // namespace kvern::eval
