#include <cmath>

#include "kernels/cpu/launch.h"
#include "kernels/cpu/layer_norm/impls.h"

namespace kvern::kernels::cpu {
namespace {

// Sum of f(x[i]) by lanes.
template <class F>
float sum_lanes(const float* x, int64_t dim, F f) {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= dim; i += 16) {
    for (int64_t l = 0; l < 16; ++l) lane[l] += f(x[i + l]);
  }
  for (int64_t l = 0; i + l < dim; ++l) lane[l] += f(x[i + l]);
  for (int64_t width = 8; width >= 1; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

void norm_row(const LayerNormDesc& desc, const LayerNormArgs& args, const float* x, float* y) {
  const auto count = static_cast<float>(desc.dim);
  const float mean = sum_lanes(x, desc.dim, [](float v) { return v; }) / count;
  const float squares = sum_lanes(x, desc.dim, [mean](float v) { return (v - mean) * (v - mean); });
  const float factor = 1.0f / std::sqrt(squares / count + desc.eps);
  for (int64_t i = 0; i < desc.dim; ++i) y[i] = (x[i] - mean) * factor * args.gamma[i];
  if (args.beta == nullptr) return;
  for (int64_t i = 0; i < desc.dim; ++i) y[i] += args.beta[i];
}

}  // namespace

// y[t,:] = (x[t,:] - mean) * rsqrt(var + eps) * gamma + beta.   Three passes over a row in L1.
void layer_norm_plain(const LayerNormDesc& desc, const LayerNormArgs& args) {
  for_rows(args.stream, args.rows, desc.dim, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      norm_row(desc, args, args.x + r * args.x_stride, args.y + r * args.y_stride);
    }
  });
}

}  // namespace kvern::kernels::cpu
