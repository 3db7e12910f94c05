// Rotary positions.
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/eval/rotate.h"
#include "compile/ir/ops.h"

namespace kvern::eval {

namespace {

double scaled(double frequency, const ir::RopeFrequencyAttrs& a) {
  if (a.scaling == ir::FrequencyScaling::kNone) return frequency;
  if (a.scaling == ir::FrequencyScaling::kLinear) return frequency / a.factor;
  const auto original = static_cast<double>(a.original);
  const double wavelength = 2.0 * 3.14159265358979323846 / frequency;
  if (wavelength > original / a.low) return frequency / a.factor;
  if (wavelength < original / a.high) return frequency;
  const double smooth = (original / wavelength - a.low) / (a.high - a.low);
  return (1.0 - smooth) * frequency / a.factor + smooth * frequency;
}

}  // namespace

std::vector<HostTensor> eval_rope_frequencies(const ir::Node& node, Inputs in) {
  const auto& a = node.attrs.as<ir::RopeFrequencyAttrs>();
  HostTensor y = f32_tensor({a.rotary_dim / 2});
  for (size_t i = 0; i < y.f32.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(a.rotary_dim);
    const double divisor = in.empty() ? 1.0 : in[0]->f32[i];
    y.f32[i] = static_cast<float>(scaled(std::pow(a.base, exponent), a) / divisor);
  }
  return {std::move(y)};
}

std::vector<HostTensor> eval_rope_angles(const ir::Node&, Inputs in) {
  const int64_t tokens = in[0]->shape[0];
  const int64_t width = in[1]->shape[0];
  HostTensor cos = f32_tensor({tokens, width});
  HostTensor sin = f32_tensor({tokens, width});
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      // The product is rounded to f32, as models are trained; sine and cosine of it are exact to
      // f32.
      const float angle = static_cast<float>(in[0]->i32[static_cast<size_t>(t)]) *
                          in[1]->f32[static_cast<size_t>(i)];
      const auto at = static_cast<size_t>(t * width + i);
      cos.f32[at] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sin.f32[at] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return {std::move(cos), std::move(sin)};
}

HostTensor rotate(const HostTensor& x, const HostTensor& cos, const HostTensor& sin,
                  const ir::RopeAttrs& a) {
  HostTensor y = x;
  const int64_t pairs = cos.shape[1];
  const int64_t step = a.interleaved ? 2 : 1;       // between the first elements of two pairs
  const int64_t other = a.interleaved ? 1 : pairs;  // from a pair's first element to its second
  for (int64_t t = 0; t < x.shape[0]; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      const float* in = x.f32.data() + (t * a.heads + h) * a.head_dim;
      float* out = y.f32.data() + (t * a.heads + h) * a.head_dim;
      for (int64_t i = 0; i < pairs; ++i) {
        const float c = cos.f32[static_cast<size_t>(t * pairs + i)];
        const float s = sin.f32[static_cast<size_t>(t * pairs + i)];
        const float first = in[i * step];
        const float second = in[i * step + other];
        out[i * step] = first * c - second * s;
        out[i * step + other] = second * c + first * s;
      }
    }
  }
  return y;
}

std::vector<HostTensor> eval_rope(const ir::Node& node, Inputs in) {
  return {rotate(*in[0], *in[1], *in[2], node.attrs.as<ir::RopeAttrs>())};
}

}  // namespace kvern::eval
