// Rules of ops that move elements.
#include <fmt/format.h>

#include <algorithm>

#include "compile/eval/tensor/infer.h"

namespace kvern::eval {
namespace {

Facts one(ElementType type, Shape shape) {
  return {{type, std::move(shape), nullptr}};
}

// Which of `rank` dims the axes name; twice the same one is refused.
std::vector<bool> marked(const InferCall& call, const std::vector<int64_t>& axes, int64_t rank) {
  std::vector<bool> marks(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(call.axis(axis, rank));
    if (marks[at]) call.fail(fmt::format("axis {} is named twice", axis));
    marks[at] = true;
  }
  return marks;
}

// Elements that a slice of one axis keeps. Negative numbers count from the end; all are clamped.
int64_t sliced_dim(int64_t dim, int64_t start, int64_t end, int64_t step) {
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? dim : dim - 1;
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  start = std::clamp(start, int64_t{0}, std::max<int64_t>(highest, 0));
  end = std::clamp(end, lowest, std::max(highest, lowest));
  if (dim == 0) return 0;
  const int64_t way = step > 0 ? end - start : start - end;
  if (way <= 0) return 0;
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return static_cast<int64_t>((static_cast<uint64_t>(way) - 1) / stride) + 1;
}

}  // namespace

Facts infer_reshape(const InferCall& call) {
  Shape shape = call.node.has("shape") ? call.node.ints("shape") : call.integers(1);
  const bool allow_zero = call.node.i("allowzero", 0) != 0;
  const int64_t count = call.count(call.shape(0));
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= call.shape(0).size()) call.fail("a dim of 0 stands beyond the input's rank");
      shape[i] = call.shape(0)[i];
    }
    if (shape[i] != -1) continue;
    if (open) call.fail(fmt::format("shape {} has two dims of -1", to_string(shape)));
    open = i;
  }
  if (open) {
    shape[*open] = 1;
    const int64_t others = call.count(shape);
    shape[*open] = others == 0 ? 0 : count / others;
  }
  if (call.count(shape) != count) {
    call.fail(
        fmt::format("{} does not fit into shape {}", to_string(call.shape(0)), to_string(shape)));
  }
  return one(call.type(0), shape);
}

Facts infer_flatten(const InferCall& call) {
  const int64_t rank = call.rank(0);
  int64_t axis = call.node.i("axis", 1);
  if (axis < -rank || axis > rank) call.fail(fmt::format("axis {} is out of range", axis));
  if (axis < 0) axis += rank;
  const Shape& shape = call.shape(0);
  return one(call.type(0), {call.count({shape.begin(), shape.begin() + axis}),
                            call.count({shape.begin() + axis, shape.end()})});
}

Facts infer_squeeze(const InferCall& call) {
  const auto axes = call.attr_or_input("axes", 1);
  const Shape& from = call.shape(0);
  const auto marks = axes ? marked(call, *axes, call.rank(0)) : std::vector<bool>();
  Shape shape;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool gone = axes ? marks[i] : from[i] == 1;
    if (gone && from[i] != 1) call.fail(fmt::format("axis {} of {} is not 1", i, to_string(from)));
    if (!gone) shape.push_back(from[i]);
  }
  return one(call.type(0), shape);
}

Facts infer_unsqueeze(const InferCall& call) {
  const auto axes = call.attr_or_input("axes", 1);
  if (!axes) call.fail("axes are wanted and left out");
  const auto marks = marked(call, *axes, call.rank(0) + static_cast<int64_t>(axes->size()));
  Shape shape;
  size_t next = 0;
  for (const bool made : marks) shape.push_back(made ? 1 : call.shape(0)[next++]);
  return one(call.type(0), shape);
}

Facts infer_transpose(const InferCall& call) {
  const Shape& from = call.shape(0);
  if (!call.node.has("perm")) return one(call.type(0), {from.rbegin(), from.rend()});
  const auto perm = call.node.ints("perm");
  if (perm.size() != from.size()) {
    call.fail(fmt::format("perm has {} entries for shape {}", perm.size(), to_string(from)));
  }
  marked(call, perm, call.rank(0));
  Shape shape;
  for (const int64_t axis : perm) shape.push_back(call.dim(0, axis));
  return one(call.type(0), shape);
}

Facts infer_concat(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", 1), call.rank(0));
  Shape shape = call.shape(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Shape other = call.shape(i);
    const bool fits = other.size() == shape.size();
    if (fits) {
      const auto at = static_cast<size_t>(axis);
      const int64_t joined = call.count({shape[at]}) + call.count({other[at]});
      other[at] = shape[at];
      if (other == shape) {
        shape[at] = joined;
        continue;
      }
    }
    call.fail(fmt::format("input {} of shape {} does not join {} along axis {}", i,
                          to_string(call.shape(i)), to_string(call.shape(0)), axis));
  }
  return one(call.type(0), shape);
}

Facts infer_split(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", 0), call.rank(0));
  const int64_t dim = call.dim(0, axis);
  auto sizes = call.attr_or_input("split", 1);
  if (!sizes) {
    const bool counted = call.node.has("num_outputs");
    const int64_t parts =
        call.node.i("num_outputs", static_cast<int64_t>(call.node.outputs.size()));
    if (parts <= 0 || parts > (1 << 20)) call.fail("the number of outputs is out of range");
    if (!counted && dim % parts != 0) {
      call.fail(fmt::format("an axis of {} is not split evenly by {}", dim, parts));
    }
    const int64_t part = (dim + parts - 1) / parts;
    sizes.emplace();
    for (int64_t i = 0; i < parts; ++i) {
      sizes->push_back(std::clamp(dim - i * part, int64_t{0}, part));
    }
  }
  Facts out;
  int64_t left = dim;
  for (const int64_t size : *sizes) {
    if (size < 0 || size > left) call.fail(fmt::format("the parts do not add up to {}", dim));
    left -= size;
    Shape shape = call.shape(0);
    shape[static_cast<size_t>(axis)] = size;
    out.push_back({call.type(0), std::move(shape), nullptr});
  }
  if (left != 0) call.fail(fmt::format("the parts do not add up to {}", dim));
  return out;
}

Facts infer_slice(const InferCall& call) {
  const auto starts = call.attr_or_input("starts", 1);
  const auto ends = call.attr_or_input("ends", 2);
  if (!starts || !ends || starts->size() != ends->size()) {
    call.fail("starts and ends are wanted, as many of each");
  }
  auto axes = call.attr_or_input("axes", 3);
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  const auto steps = call.has(4) ? call.integers(4) : std::vector<int64_t>(axes->size(), 1);
  if (axes->size() != starts->size() || steps.size() != axes->size()) {
    call.fail("starts, ends, axes and steps differ in number");
  }
  marked(call, *axes, call.rank(0));
  Shape shape = call.shape(0);
  for (size_t i = 0; i < axes->size(); ++i) {
    if (steps[i] == 0) call.fail("a step is 0");
    int64_t& dim = shape[static_cast<size_t>(call.axis((*axes)[i], call.rank(0)))];
    dim = sliced_dim(dim, (*starts)[i], (*ends)[i], steps[i]);
  }
  return one(call.type(0), shape);
}

Facts infer_expand(const InferCall& call) {
  const Shape shape = call.broadcast(call.shape(0), call.integers(1));
  call.count(shape);
  return one(call.type(0), shape);
}

Facts infer_tile(const InferCall& call) {
  const auto repeats = call.integers(1);
  Shape shape = call.shape(0);
  if (repeats.size() != shape.size()) {
    call.fail(fmt::format("{} repeats for shape {}", repeats.size(), to_string(shape)));
  }
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = call.count({shape[i], repeats[i]});
  return one(call.type(0), shape);
}

Facts infer_pad(const InferCall& call) {
  const auto pads = call.attr_or_input("pads", 1);
  std::vector<int64_t> axes;
  if (call.has(3)) {
    axes = call.integers(3);
  } else {
    for (int64_t i = 0; i < call.rank(0); ++i) axes.push_back(i);
  }
  if (!pads || pads->size() != 2 * axes.size()) call.fail("two pads for each axis are wanted");
  Shape shape = call.shape(0);
  constexpr int64_t kMost = int64_t{1} << 40;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t before = (*pads)[i];
    const int64_t after = (*pads)[i + axes.size()];
    if (std::max(before, after) > kMost || std::min(before, after) < -kMost) {
      call.fail("a pad is out of range");
    }
    shape[static_cast<size_t>(call.axis(axes[i], call.rank(0)))] += before + after;
  }
  call.count(shape);
  return one(call.type(0), shape);
}

Facts infer_gather(const InferCall& call) {
  const int64_t axis = call.axis(call.node.i("axis", 0), call.rank(0));
  Shape shape = call.shape(0);
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, call.shape(1).begin(), call.shape(1).end());
  return one(call.type(0), shape);
}

Facts infer_gather_elements(const InferCall& call) {
  return one(call.type(0), call.shape(1));
}

Facts infer_gather_nd(const InferCall& call) {
  call.want_rank(1, 1, 64);
  const int64_t batch = call.node.i("batch_dims", 0);
  const int64_t depth = call.dim(1, -1);
  if (batch < 0 || batch >= call.rank(1) || depth < 0 || depth > call.rank(0) - batch) {
    call.fail(fmt::format("indices of shape {} do not fit data of shape {}",
                          to_string(call.shape(1)), to_string(call.shape(0))));
  }
  Shape shape(call.shape(1).begin(), call.shape(1).end() - 1);
  shape.insert(shape.end(), call.shape(0).begin() + batch + depth, call.shape(0).end());
  return one(call.type(0), shape);
}

}  // namespace kvern::eval
