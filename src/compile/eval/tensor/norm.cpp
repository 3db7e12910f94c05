// Normalisations: layer, RMS, group, instance, and com.microsoft's that add a residual first.
#include <fmt/format.h>

#include <cmath>

#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/contrib_defaults.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/elementwise.h"
#include "compile/eval/tensor/floats.h"

namespace kvern::eval {
namespace {

struct Normalised {
  Array y;        // of x's shape
  Array mean;     // one per row
  Array inv_std;  // the same
};

// Rows of `count / rows` elements: (x - mean) / sqrt(var + eps), or x / sqrt(mean(x^2) + eps).
Normalised normalise(const Array& x, int64_t rows, double epsilon, bool subtract_mean) {
  Normalised out{Array(ElementType::kFloat, x.shape()), Array(ElementType::kFloat, {rows}),
                 Array(ElementType::kFloat, {rows})};
  const int64_t length = rows == 0 ? 0 : x.count() / rows;
  const float* from = x.as<float>().data();
  float* to = out.y.mutable_as<float>().data();
  float* means = out.mean.mutable_as<float>().data();
  float* inv_stds = out.inv_std.mutable_as<float>().data();
  for (int64_t row = 0; row < rows; ++row, from += length, to += length) {
    double mean = 0;
    if (subtract_mean) {
      for (int64_t i = 0; i < length; ++i) mean += from[i];
      mean /= static_cast<double>(length);
    }
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) {
      const double centred = from[i] - mean;
      squares += centred * centred;
    }
    const double inv_std = 1.0 / std::sqrt(squares / static_cast<double>(length) + epsilon);
    means[row] = static_cast<float>(mean);
    inv_stds[row] = static_cast<float>(inv_std);
    for (int64_t i = 0; i < length; ++i) {
      to[i] = (from[i] - means[row]) * inv_stds[row];
    }
  }
  return out;
}

// y * scale (+ bias), both broadcast to y's shape.
Array affine(const OpCall& call, Array y, const Array& scale, const Array* bias) {
  const Shape shape = y.shape();
  y = combine<float, float, float>(call, y, scale, ElementType::kFloat,
                                   [](float a, float b) { return a * b; });
  if (bias != nullptr) {
    y = combine<float, float, float>(call, y, *bias, ElementType::kFloat,
                                     [](float a, float b) { return a + b; });
  }
  if (y.shape() != shape) call.fail("scale or bias are larger than what is normalised");
  return y;
}

// Half precision is kept between normalisation and scale, as the standard's cast does.
Array rounded_as(const Array& array, ElementType type) {
  return is_half(type) ? widened(narrowed(array, type)) : array;
}

int64_t product(const Shape& shape, int64_t begin, int64_t end) {
  int64_t out = 1;
  for (int64_t i = begin; i < end; ++i) out *= shape[static_cast<size_t>(i)];
  return out;
}

ElementType stash_type(const OpCall& call) {
  const int64_t code = call.node.i("stash_type", 1);
  const auto type = static_cast<ElementType>(code);
  if (code < 0 || code > 100 || !ir::is_float(type)) {
    call.fail(fmt::format("stash_type {} is no float type", code));
  }
  return type;
}

// Means and the like, as an output: rows with dims of 1 for what was normalised.
Array per_row(const Array& rows, Shape shape, int64_t axis, ElementType type) {
  for (size_t i = static_cast<size_t>(axis); i < shape.size(); ++i) shape[i] = 1;
  return from_floats(rows.reshaped(std::move(shape)), type);
}

Arrays layer_or_rms(const OpCall& call, bool subtract_mean) {
  const Array x = floats_in(call, 0);
  const int64_t axis = normal_axis(call, call.node.i("axis", -1), x.rank());
  const int64_t rows = product(x.shape(), 0, axis);
  const Normalised done = normalise(x, rows, call.node.f("epsilon", 1e-5), subtract_mean);
  const Array scale = floats_in(call, 1);
  Array bias;
  if (call.has(2)) bias = floats_in(call, 2);
  const Array y =
      affine(call, rounded_as(done.y, call.in(0).type()), scale, call.has(2) ? &bias : nullptr);
  const ElementType stash = stash_type(call);
  // RMSNormalization's result is of the scale's type, LayerNormalization's of x's: one and the
  // same.
  const ElementType type = subtract_mean ? call.in(0).type() : call.in(1).type();
  Arrays out = {from_floats(y, type)};
  if (subtract_mean) out.push_back(per_row(done.mean, x.shape(), axis, stash));
  out.push_back(per_row(done.inv_std, x.shape(), axis, stash));
  return out;
}

// scale or bias of [channels] for x [batch, channels, …].
Array per_channel(const OpCall& call, size_t index, const Array& x, int64_t repeats) {
  const Array given = floats_in(call, index);
  const int64_t channels = x.shape()[1];
  if (given.count() * repeats != channels) {
    call.fail(fmt::format("input {} of shape {} does not fit {} channels", index,
                          to_string(given.shape()), channels));
  }
  Shape shape(x.shape().size() - 1, 1);
  shape[0] = channels;
  Array out(ElementType::kFloat, shape);
  const auto from = given.as<float>();
  const auto to = out.mutable_as<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i / static_cast<size_t>(repeats)];
  return out;
}

}  // namespace

Arrays eval_layer_norm(const OpCall& call) {
  return layer_or_rms(call, true);
}

Arrays eval_rms_norm(const OpCall& call) {
  return layer_or_rms(call, false);
}

Arrays eval_group_norm(const OpCall& call) {
  const Array x = floats_in(call, 0);
  if (x.rank() < 2) call.fail("the input must be [batch, channels, …]");
  const int64_t channels = x.shape()[1];
  const int64_t groups = call.node.i("num_groups", 0);
  if (groups <= 0 || channels % groups != 0) {
    call.fail(fmt::format("{} channels are not cut into {} groups", channels, groups));
  }
  const Normalised done = normalise(x, x.shape()[0] * groups, call.node.f("epsilon", 1e-5), true);
  // Before opset 21 scale and bias were those of a group.
  const int64_t repeats = call.node.opset < 21 ? channels / groups : 1;
  const Array bias = per_channel(call, 2, x, repeats);
  const Array y =
      affine(call, rounded_as(done.y, call.in(0).type()), per_channel(call, 1, x, repeats), &bias);
  return {from_floats(y, call.in(0).type())};
}

Arrays eval_instance_norm(const OpCall& call) {
  const Array x = floats_in(call, 0);
  if (x.rank() < 2) call.fail("the input must be [batch, channels, …]");
  const int64_t rows = x.shape()[0] * x.shape()[1];
  const Normalised done = normalise(x, rows, call.node.f("epsilon", 1e-5), true);
  const Array bias = per_channel(call, 2, x, 1);
  return {from_floats(affine(call, done.y, per_channel(call, 1, x, 1), &bias), call.in(0).type())};
}

Arrays eval_skip_norm(const OpCall& call) {
  const bool rms = call.node.op == "SkipSimplifiedLayerNormalization";
  const auto add = [](float a, float b) { return a + b; };
  const Array x = floats_in(call, 0);
  if (x.rank() == 0) call.fail("the input must have an axis to normalise");
  Array sum = combine<float, float, float>(call, x, floats_in(call, 1), ElementType::kFloat, add);
  const size_t bias_at = rms ? 3 : 4;
  if (call.has(bias_at)) {
    sum =
        combine<float, float, float>(call, sum, floats_in(call, bias_at), ElementType::kFloat, add);
  }
  if (sum.shape() != x.shape()) call.fail("skip or bias are larger than the input");
  const int64_t axis = x.rank() - 1;
  const int64_t rows = product(x.shape(), 0, axis);
  const double epsilon = call.node.f("epsilon", kSkipNormEpsilon);
  const Normalised done = normalise(sum, rows, epsilon, !rms);
  Array beta;
  const bool has_beta = !rms && call.has(3);
  if (has_beta) beta = floats_in(call, 3);
  const Array y = affine(call, done.y, floats_in(call, 2), has_beta ? &beta : nullptr);
  const ElementType type = call.in(0).type();
  return {from_floats(y, type), per_row(done.mean, x.shape(), axis, ElementType::kFloat),
          per_row(done.inv_std, x.shape(), axis, ElementType::kFloat), from_floats(sum, type)};
}

}  // namespace kvern::eval
