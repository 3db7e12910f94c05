// Linear layers and norms.
#include <algorithm>
#include <cmath>

#include "compile/eval/node_eval.h"
#include "compile/ir/ops.h"

namespace kvern::eval {
namespace {

constexpr int64_t kPanel = 16;  // outputs computed together; a vector loop over them
constexpr int64_t kRows = 4;    // rows of x that share one walk over the panel

// panel[k][0..16) = w[n0 + j][k]; rows past the end are zero.
void transpose_panel(const float* w, int64_t n0, int64_t n, int64_t k, std::vector<float>& panel) {
  for (int64_t j = 0; j < kPanel; ++j) {
    const float* row = n0 + j < n ? w + (n0 + j) * k : nullptr;
    for (int64_t i = 0; i < k; ++i) {
      panel[static_cast<size_t>(i * kPanel + j)] = row == nullptr ? 0.0f : row[i];
    }
  }
}

// sums[r][j] = x[r,:] . panel[:,j] for `rows` <= kRows rows, K ascending.
template <int64_t rows>
void multiply(const float* x, const float* panel, int64_t k, float (*sums)[kPanel]) {
  float acc[rows][kPanel] = {};
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      const float value = x[r * k + i];
      for (int64_t j = 0; j < kPanel; ++j) acc[r][j] += value * panel[i * kPanel + j];
    }
  }
  std::copy(&acc[0][0], &acc[0][0] + rows * kPanel, &sums[0][0]);
}

// y[t,:] = x[t,:] / sqrt(mean(x[t,:]^2) + eps) * gamma, for every head of every row.
HostTensor rms_norm(const HostTensor& x, const HostTensor& gamma, float eps) {
  const int64_t dim = gamma.shape[0];
  HostTensor y = f32_tensor(x.shape);
  const int64_t rows = num_elements(x.shape) / dim;
  for (int64_t t = 0; t < rows; ++t) {
    const float* in = x.f32.data() + t * dim;
    float* out = y.f32.data() + t * dim;
    float squares = 0;
    for (int64_t i = 0; i < dim; ++i) squares += in[i] * in[i];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
    for (int64_t i = 0; i < dim; ++i) out[i] = in[i] * scale * gamma.f32[static_cast<size_t>(i)];
  }
  return y;
}

}  // namespace

std::vector<HostTensor> eval_linear(const ir::Node&, Inputs in) {
  const int64_t m = in[0]->shape[0];
  const int64_t n = in[1]->shape[0];
  const int64_t k = in[1]->shape[1];
  HostTensor y = f32_tensor({m, n});
  std::vector<float> panel(static_cast<size_t>(k * kPanel));
  float sums[kRows][kPanel];
  for (int64_t n0 = 0; n0 < n; n0 += kPanel) {
    transpose_panel(in[1]->f32.data(), n0, n, k, panel);
    const int64_t count = std::min(kPanel, n - n0);
    for (int64_t r0 = 0; r0 < m;) {
      const int64_t rows = m - r0 >= kRows ? kRows : 1;
      const float* x = in[0]->f32.data() + r0 * k;
      if (rows == kRows)
        multiply<kRows>(x, panel.data(), k, sums);
      else
        multiply<1>(x, panel.data(), k, sums);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t j = 0; j < count; ++j) {
          const float bias = in.size() == 3 ? in[2]->f32[static_cast<size_t>(n0 + j)] : 0.0f;
          y.f32[static_cast<size_t>((r0 + r) * n + n0 + j)] = sums[r][j] + bias;
        }
      }
      r0 += rows;
    }
  }
  return {std::move(y)};
}

std::vector<HostTensor> eval_rms_norm(const ir::Node& node, Inputs in) {
  return {rms_norm(*in[0], *in[1], node.attrs.as<ir::NormAttrs>().eps)};
}

// In double: the oracle of what kernels round on the way.
std::vector<HostTensor> eval_layer_norm(const ir::Node& node, Inputs in) {
  const int64_t dim = in[0]->shape[1];
  const double eps = node.attrs.as<ir::NormAttrs>().eps;
  HostTensor y = f32_tensor(in[0]->shape);
  for (int64_t t = 0; t < in[0]->shape[0]; ++t) {
    const float* x = in[0]->f32.data() + t * dim;
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(dim);
    for (int64_t i = 0; i < dim; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dim) + eps);
    for (int64_t i = 0; i < dim; ++i) {
      const auto at = static_cast<size_t>(i);
      const double beta = in.size() == 3 ? in[2]->f32[at] : 0.0f;
      y.f32[static_cast<size_t>(t * dim + i)] =
          static_cast<float>((x[i] - mean) * scale * in[1]->f32[at] + beta);
    }
  }
  return {std::move(y)};
}

std::vector<HostTensor> eval_add_rms_norm(const ir::Node& node, Inputs in) {
  std::vector<HostTensor> out = eval_add(node, in.first(2));
  out.push_back(rms_norm(out[0], *in[2], node.attrs.as<ir::NormAttrs>().eps));
  return out;
}

}  // namespace kvern::eval
