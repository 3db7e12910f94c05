// The standard's recurrent ops of opset 27: LinearAttention and CausalConvWithState.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/eval/tensor/attention_core.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/floats.h"

namespace kvern::eval {
namespace {

struct LinearJob {
  int64_t batch, heads, kv_heads, tokens, dim_k, dim_v;
  Array q;      // [batch, heads, tokens, dim_k]
  Array k, v;   // [batch, kv_heads, tokens, dim]
  Array decay;  // [batch, kv_heads, tokens, 1 or dim_k]; no type: none
  Array beta;   // [batch, kv_heads or 1, tokens, 1]; no type: none
  Array state;  // [batch, kv_heads, dim_k, dim_v]
  float scale;
};

LinearJob linear_job(const OpCall& call) {
  const TensorNode& node = call.node;
  const std::string rule = node.s("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") call.unsupported("update_rule '" + rule + "'");
  if (call.has(4) != gated) call.fail("decay goes with a gated update_rule, and only with it");
  if (call.has(5) != delta) call.fail("beta goes with a delta update_rule, and only with it");
  LinearJob job{};
  job.heads = node.i("q_num_heads", 0);
  job.kv_heads = node.i("kv_num_heads", 0);
  job.q = heads_first(call, floats_in(call, 0), job.heads);
  job.k = heads_first(call, floats_in(call, 1), job.kv_heads);
  job.v = heads_first(call, floats_in(call, 2), job.kv_heads);
  const Shape& q = job.q.shape();
  job.batch = q[0];
  job.tokens = q[2];
  job.dim_k = q[3];
  job.dim_v = job.v.shape()[3];
  const bool fits = job.heads % job.kv_heads == 0 &&
                    job.k.shape() == Shape{q[0], job.kv_heads, q[2], q[3]} &&
                    job.v.shape() == Shape{q[0], job.kv_heads, q[2], job.dim_v};
  if (!fits) call.fail("query, key and value do not fit together");
  if (gated) {
    job.decay = heads_first(call, floats_in(call, 4), job.kv_heads);
    const Shape& shape = job.decay.shape();
    if (shape[0] != q[0] || shape[2] != q[2] || (shape[3] != 1 && shape[3] != job.dim_k)) {
      call.fail(fmt::format("a decay of {} does not fit", to_string(call.in(4).shape())));
    }
  }
  if (delta) {
    const Array& beta = call.in(5);
    const bool single = beta.rank() == 3 && beta.shape()[2] == 1;
    job.beta = heads_first(call, floats_in(call, 5), single ? 1 : job.kv_heads);
    const Shape& shape = job.beta.shape();
    if (shape[0] != q[0] || shape[2] != q[2] || shape[3] != 1) {
      call.fail(fmt::format("a beta of {} does not fit", to_string(beta.shape())));
    }
  }
  const Shape state = {q[0], job.kv_heads, job.dim_k, job.dim_v};
  job.state = call.has(3) ? floats_in(call, 3, state) : Array(ElementType::kFloat, state);
  const double scale = node.f("scale", 0);
  job.scale = static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<double>(q[3])) : scale);
  return job;
}

// One token of one KV head: state [dim_k, dim_v] decays, is corrected and takes k v.
void update_state(const LinearJob& job, int64_t b, int64_t h, int64_t t, float* state,
                  std::vector<float>* value) {
  const int64_t at = (b * job.kv_heads + h) * job.tokens + t;
  const float* k = job.k.as<float>().data() + at * job.dim_k;
  const float* v = job.v.as<float>().data() + at * job.dim_v;
  value->assign(v, v + job.dim_v);
  if (job.decay.type() != ElementType::kUndefined) {
    const int64_t width = job.decay.shape()[3];
    const float* decay = job.decay.as<float>().data() + at * width;
    for (int64_t d = 0; d < job.dim_k; ++d) {
      const float factor = std::exp(decay[width == 1 ? 0 : d]);
      for (int64_t m = 0; m < job.dim_v; ++m) state[d * job.dim_v + m] *= factor;
    }
  }
  if (job.beta.type() != ElementType::kUndefined) {
    const int64_t heads = job.beta.shape()[1];
    const float beta =
        job.beta
            .as<float>()[static_cast<size_t>((b * heads + (heads == 1 ? 0 : h)) * job.tokens + t)];
    for (int64_t d = 0; d < job.dim_k; ++d) {
      for (int64_t m = 0; m < job.dim_v; ++m) {
        (*value)[static_cast<size_t>(m)] -= state[d * job.dim_v + m] * k[d];
      }
    }
    for (float& x : *value) x *= beta;
  }
  for (int64_t d = 0; d < job.dim_k; ++d) {
    for (int64_t m = 0; m < job.dim_v; ++m) {
      state[d * job.dim_v + m] += k[d] * (*value)[static_cast<size_t>(m)];
    }
  }
}

// What the query heads of a KV head read from its state after token t.
void read_state(const LinearJob& job, int64_t b, int64_t h, int64_t t, const float* state,
                float* y) {
  const int64_t group = job.heads / job.kv_heads;
  for (int64_t head = h * group; head < (h + 1) * group; ++head) {
    const int64_t at = (b * job.heads + head) * job.tokens + t;
    const float* q = job.q.as<float>().data() + at * job.dim_k;
    float* out = y + at * job.dim_v;
    for (int64_t d = 0; d < job.dim_k; ++d) {
      const float factor = job.scale * q[d];
      for (int64_t m = 0; m < job.dim_v; ++m) out[m] += factor * state[d * job.dim_v + m];
    }
  }
}

}  // namespace

Arrays eval_linear_attention(const OpCall& call) {
  LinearJob job = linear_job(call);
  Array y(ElementType::kFloat, {job.batch, job.heads, job.tokens, job.dim_v});
  float* out = y.mutable_as<float>().data();
  float* states = job.state.mutable_as<float>().data();
  std::vector<float> value;
  for (int64_t b = 0; b < job.batch; ++b) {
    for (int64_t h = 0; h < job.kv_heads; ++h) {
      float* state = states + (b * job.kv_heads + h) * job.dim_k * job.dim_v;
      for (int64_t t = 0; t < job.tokens; ++t) {
        update_state(job, b, h, t, state, &value);
        read_state(job, b, h, t, state, out);
      }
    }
  }
  const ElementType type = call.in(0).type();
  return {from_floats(heads_last(y), type),
          from_floats(job.state, call.has(3) ? call.in(3).type() : type)};
}

Arrays eval_causal_conv(const OpCall& call) {
  const Array x = floats_in(call, 0);
  const Array weight = floats_in(call, 1);
  if (x.rank() != 3 || weight.rank() != 3 || weight.shape()[2] == 0 ||
      weight.shape()[0] != x.shape()[1] || weight.shape()[1] != 1) {
    call.fail(fmt::format("weights of {} do not fit an input of {}", to_string(weight.shape()),
                          to_string(x.shape())));
  }
  const int64_t rows = x.shape()[0] * x.shape()[1], channels = x.shape()[1];
  const int64_t length = x.shape()[2], taps = weight.shape()[2], kept = taps - 1;
  const std::string activation = call.node.s("activation", "none");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") call.unsupported("activation '" + activation + "'");
  const Shape state_shape = {x.shape()[0], channels, kept};
  const Array past =
      call.has(3) ? floats_in(call, 3, state_shape) : Array(ElementType::kFloat, state_shape);
  const Array bias =
      call.has(2) ? floats_in(call, 2, {channels}) : Array(ElementType::kFloat, {channels});
  Array y(ElementType::kFloat, x.shape());
  Array present(ElementType::kFloat, state_shape);
  float* out = y.mutable_as<float>().data();
  float* state = present.mutable_as<float>().data();
  std::vector<float> line(static_cast<size_t>(kept + length));  // past, then new
  for (int64_t row = 0; row < rows; ++row, out += length, state += kept) {
    std::copy_n(past.as<float>().data() + row * kept, kept, line.begin());
    std::copy_n(x.as<float>().data() + row * length, length, line.begin() + kept);
    const int64_t channel = row % channels;
    const float* w = weight.as<float>().data() + channel * taps;
    for (int64_t t = 0; t < length; ++t) {
      float sum = bias.as<float>()[static_cast<size_t>(channel)];
      for (int64_t i = 0; i < taps; ++i) sum += w[i] * line[static_cast<size_t>(t + i)];
      out[t] = silu ? sum / (1.0F + std::exp(-sum)) : sum;
    }
    std::copy_n(line.end() - kept, kept, state);
  }
  const ElementType type = call.in(0).type();
  return {from_floats(y, type), from_floats(present, type)};
}

}  // namespace kvern::eval
