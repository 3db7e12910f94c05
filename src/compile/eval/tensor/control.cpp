// If, Loop and Scan. Bodies run through OpCall::run_body, which knows what they captured.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/strided.h"

namespace kvern::eval {
namespace {

std::shared_ptr<const TensorGraph> body_of(const OpCall& call, const char* attr) {
  auto body = call.node.graph(attr);
  if (body == nullptr) call.fail(fmt::format("attribute '{}' is wanted", attr));
  if (!call.run_body) {
    call.unsupported(
        fmt::format("its body cannot be turned into a plan; export without {}, for example with "
                    "torch.onnx.export(dynamo=True) or with constants folded",
                    call.node.op));
  }
  return body;
}

bool truth(const OpCall& call, const Array& array) {
  if (array.type() != ElementType::kBool || array.count() != 1) {
    call.fail(fmt::format("its condition must be one bool, got {} {}",
                          ir::element_type_name(array.type()), to_string(array.shape())));
  }
  return array.as<uint8_t>()[0] != 0;
}

// What the body gave, checked against how many results it must have.
Arrays run(const OpCall& call, const TensorGraph& body, const Arrays& inputs) {
  if (inputs.size() != body.inputs.size()) {
    call.fail(
        fmt::format("its body has {} inputs, {} are given", body.inputs.size(), inputs.size()));
  }
  Arrays out = call.run_body(body, inputs);
  if (out.size() != body.outputs.size()) call.fail("its body gave too few results");
  return out;
}

// Equal arrays stacked along a new axis; none: an array without elements.
Array stacked(const OpCall& call, const Arrays& parts, int64_t axis, bool backwards) {
  if (parts.empty()) return Array(ElementType::kFloat, {0});
  const Array& first = parts.front();
  for (const Array& part : parts) {
    if (part.shape() != first.shape() || part.type() != first.type()) {
      call.fail(fmt::format("a scan output changes its shape from {} to {}",
                            to_string(first.shape()), to_string(part.shape())));
    }
  }
  Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
  Array out(first.type(), shape);
  const size_t size = first.bytes().size();
  std::byte* to = out.mutable_bytes().data();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Array& part = parts[backwards ? parts.size() - 1 - i : i];
    if (size > 0) std::memcpy(to + i * size, part.bytes().data(), size);
  }
  if (axis == 0) return out;
  std::vector<int64_t> perm;  // axis 0 moves to `axis`
  for (int64_t i = 1; i < out.rank(); ++i) perm.push_back(i);
  perm.insert(perm.begin() + axis, 0);
  return transposed(out, perm);
}

// Element `index` of `axis`, without that axis.
Array taken(const Array& array, int64_t axis, int64_t index) {
  Shape shape = array.shape();
  const Strides strides = dense_strides(shape);
  const size_t bytes = ir::element_bytes(array.type());
  shape.erase(shape.begin() + axis);
  Strides from = strides;
  from.erase(from.begin() + axis);
  Array out(array.type(), shape);
  const auto offset = static_cast<size_t>(index * strides[static_cast<size_t>(axis)]) * bytes;
  copy_strided(bytes, shape, array.bytes().data() + offset, from, out.mutable_bytes().data(),
               dense_strides(shape));
  return out;
}

int64_t entry(const std::vector<int64_t>& list, int64_t index) {
  return index < static_cast<int64_t>(list.size()) ? list[static_cast<size_t>(index)] : 0;
}

// What a Scan walks over: its inputs along their axes.
struct Scanned {
  std::vector<Array> arrays;
  std::vector<int64_t> axes;
  std::vector<bool> backwards;
  int64_t length = -1;
};

Scanned scanned_inputs(const OpCall& call, int64_t states) {
  const auto axes = call.node.ints("scan_input_axes");
  const auto directions = call.node.ints("scan_input_directions");
  Scanned out;
  for (int64_t i = states; i < static_cast<int64_t>(call.inputs.size()); ++i) {
    const Array& array = call.in(static_cast<size_t>(i));
    const int64_t axis = normal_axis(call, entry(axes, i - states), array.rank());
    const int64_t length = array.shape()[static_cast<size_t>(axis)];
    if (out.length >= 0 && out.length != length) call.fail("its inputs differ in length");
    out.length = length;
    out.arrays.push_back(array);
    out.axes.push_back(axis);
    out.backwards.push_back(entry(directions, i - states) != 0);
  }
  return out;
}

}  // namespace

Arrays eval_if(const OpCall& call) {
  const bool yes = truth(call, call.in(0));
  const auto body = body_of(call, yes ? "then_branch" : "else_branch");
  return run(call, *body, {});
}

Arrays eval_loop(const OpCall& call) {
  const auto body = body_of(call, "body");
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (call.has(0)) {
    const auto given = integers_of(call, 0);
    if (given.size() != 1) call.fail("the number of trips must be one number");
    trips = given[0];
  }
  bool go_on = !call.has(1) || truth(call, call.in(1));
  const size_t carried = call.inputs.size() < 2 ? 0 : call.inputs.size() - 2;
  if (body->outputs.size() < carried + 1) call.fail("its body gives too few results");
  Arrays state;
  for (size_t i = 0; i < carried; ++i) state.push_back(call.in(i + 2));
  std::vector<Arrays> scans(body->outputs.size() - carried - 1);
  for (int64_t trip = 0; go_on && trip < trips; ++trip) {
    if (trip == call.max_loop_trips) {
      call.unsupported(fmt::format("it runs over {} trips", call.max_loop_trips));
    }
    Arrays inputs = {Array::scalar_i64(trip),
                     Array::of<uint8_t>(ElementType::kBool, {}, std::vector<uint8_t>{1})};
    inputs.insert(inputs.end(), state.begin(), state.end());
    Arrays results = run(call, *body, inputs);
    go_on = truth(call, results[0]);
    for (size_t i = 0; i < carried; ++i) state[i] = results[i + 1];
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(results[carried + 1 + i]);
  }
  for (const Arrays& parts : scans) state.push_back(stacked(call, parts, 0, false));
  return state;
}

Arrays eval_scan(const OpCall& call) {
  const auto body = body_of(call, "body");
  const auto count = static_cast<int64_t>(call.inputs.size());
  const int64_t walked = call.node.i("num_scan_inputs", 0);
  const int64_t states = count - walked;
  if (walked <= 0 || states < 0 || static_cast<int64_t>(body->outputs.size()) < states) {
    call.fail(fmt::format("num_scan_inputs is {} of {} inputs", walked, count));
  }
  const Scanned scanned = scanned_inputs(call, states);
  if (scanned.length > call.max_loop_trips) {
    call.unsupported(fmt::format("it runs over {} trips", call.max_loop_trips));
  }
  Arrays state;
  for (int64_t i = 0; i < states; ++i) state.push_back(call.in(static_cast<size_t>(i)));
  std::vector<Arrays> scans(body->outputs.size() - static_cast<size_t>(states));
  for (int64_t trip = 0; trip < scanned.length; ++trip) {
    Arrays inputs = state;
    for (size_t i = 0; i < scanned.arrays.size(); ++i) {
      const int64_t at = scanned.backwards[i] ? scanned.length - 1 - trip : trip;
      inputs.push_back(taken(scanned.arrays[i], scanned.axes[i], at));
    }
    Arrays results = run(call, *body, inputs);
    for (size_t i = 0; i < state.size(); ++i) state[i] = results[i];
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(results[state.size() + i]);
  }
  const auto axes = call.node.ints("scan_output_axes");
  const auto directions = call.node.ints("scan_output_directions");
  for (size_t i = 0; i < scans.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t rank = scans[i].empty() ? 1 : scans[i][0].rank() + 1;
    const int64_t axis = normal_axis(call, entry(axes, at), rank);
    state.push_back(stacked(call, scans[i], axis, entry(directions, at) != 0));
  }
  return state;
}

}  // namespace kvern::eval
