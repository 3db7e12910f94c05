#include "compile/eval/tensor/attention_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/strided.h"
#include "compile/ir/work_budget.h"

namespace kvern::eval {
namespace {

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

void check_shapes(const OpCall& call, const AttentionJob& job) {
  const Shape& q = job.q.shape();
  const Shape& k = job.k.shape();
  const Shape& v = job.v.shape();
  const bool ranks = q.size() == 4 && k.size() == 4 && v.size() == 4;
  const bool fits = ranks && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2] &&
                    q[3] == k[3] && k[1] > 0 && q[1] % k[1] == 0;
  if (!fits) {
    call.fail(fmt::format(
        "queries {}, keys {} and values {} do not fit together as [batch, heads, tokens, dim]",
        to_string(q), to_string(k), to_string(v)));
  }
}

// [rows, cols] to [cols, rows].
void transpose_into(const float* from, int64_t rows, int64_t cols, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[c * rows + r] = from[r * cols + c];
  }
}

// scores[t] = sum over d of q[d] * keys[d][t], in ascending d.
void score_row(const float* q, const float* keys, int64_t dim, float scale,
               std::span<float> scores) {
  const auto count = static_cast<int64_t>(scores.size());
  std::fill(scores.begin(), scores.end(), 0.0F);
  float* out = scores.data();
  for (int64_t d = 0; d < dim; ++d) {
    const float factor = q[d] * scale;
    const float* key = keys + d * count;
    for (int64_t t = 0; t < count; ++t) out[t] += factor * key[t];
  }
}

// Softmax in place; a sink adds exp(sink) to the sum. A row of -inf becomes zeros.
void softmax_row(std::span<float> row, const float* sink) {
  float top = sink == nullptr ? kNegInf : *sink;
  for (const float score : row) top = std::isnan(score) ? score : std::max(top, score);
  if (top == kNegInf) {
    std::fill(row.begin(), row.end(), 0.0F);
    return;
  }
  double sum = sink == nullptr ? 0 : std::exp(*sink - top);
  for (float& score : row) {
    score = score == kNegInf ? 0.0F : std::exp(score - top);
    sum += score;
  }
  const auto factor = static_cast<float>(1.0 / sum);
  for (float& score : row) score *= factor;
}

void weigh_values(std::span<const float> weights, const float* values, int64_t dim, float* out) {
  for (size_t t = 0; t < weights.size(); ++t) {
    const float weight = weights[t];
    if (weight == 0) continue;  // what is not seen may hold anything
    const float* value = values + static_cast<int64_t>(t) * dim;
    for (int64_t d = 0; d < dim; ++d) out[d] += weight * value[d];
  }
}

}  // namespace

Array run_attention(const OpCall& call, const AttentionJob& job) {
  check_shapes(call, job);
  const int64_t batch = job.q.shape()[0], heads = job.q.shape()[1], rows = job.q.shape()[2];
  const int64_t kv_heads = job.k.shape()[1], keys = job.k.shape()[2];
  const int64_t dim_k = job.k.shape()[3], dim_v = job.v.shape()[3];
  if (!job.sinks.empty() && static_cast<int64_t>(job.sinks.size()) != heads) {
    call.fail(fmt::format("there are {} sinks for {} heads", job.sinks.size(), heads));
  }
  Array out(ElementType::kFloat, {batch, heads, rows, dim_v});
  if (job.scores != nullptr) *job.scores = Array(ElementType::kFloat, {batch, heads, rows, keys});
  if (out.count() == 0 && job.scores == nullptr) return out;
  ir::spend_multiply_adds(static_cast<double>(batch * heads) * static_cast<double>(rows) *
                          static_cast<double>(keys) * static_cast<double>(dim_k + dim_v));
  const float* q = job.q.as<float>().data();
  const float* k = job.k.as<float>().data();
  const float* v = job.v.as<float>().data();
  float* y = out.mutable_as<float>().data();
  float* wanted = job.scores == nullptr ? nullptr : job.scores->mutable_as<float>().data();
  std::vector<float> keys_by_dim(static_cast<size_t>(dim_k * keys));
  std::vector<float> scores(static_cast<size_t>(keys));
  for (int64_t head = 0; head < batch * heads; ++head) {  // of all sequences
    const int64_t b = head / heads, h = head % heads;
    const int64_t group = b * kv_heads + h / (heads / kv_heads);
    transpose_into(k + group * keys * dim_k, keys, dim_k, keys_by_dim.data());
    for (int64_t row = 0; row < rows; ++row) {
      ir::check_stop();
      const int64_t at = head * rows + row;
      const auto keep = [&](ScoreStage stage) {
        if (wanted != nullptr && job.stage == stage) {
          std::copy(scores.begin(), scores.end(), wanted + at * keys);
        }
      };
      score_row(q + at * dim_k, keys_by_dim.data(), dim_k, job.scale, scores);
      keep(ScoreStage::kRaw);
      if (job.softcap > 0) {
        for (float& score : scores) score = job.softcap * std::tanh(score / job.softcap);
      }
      keep(ScoreStage::kCapped);
      if (job.bias) job.bias(b, h, row, scores);
      keep(ScoreStage::kBiased);
      softmax_row(scores, job.sinks.empty() ? nullptr : &job.sinks[static_cast<size_t>(h)]);
      keep(ScoreStage::kSoftmax);
      weigh_values(scores, v + group * keys * dim_v, dim_v, y + at * dim_v);
    }
  }
  return out;
}

MaskBias::MaskBias(const OpCall& call, const Array& mask, const Shape& scores, bool short_keys) {
  const size_t rank = mask.shape().size();
  bool fits = rank >= 1 && rank <= 4;
  for (size_t i = 0; fits && i + 1 < rank; ++i) {
    const int64_t dim = mask.shape()[i];
    fits = dim == 1 || dim == scores[scores.size() - rank + i];
  }
  const int64_t keys = scores.back();
  seen_ = fits ? mask.shape().back() : 0;
  repeated_ = !short_keys && seen_ == 1;
  if (!fits || seen_ > keys || (seen_ < keys && !short_keys && !repeated_)) {
    call.fail(fmt::format("a mask of shape {} does not broadcast to scores of {}",
                          to_string(mask.shape()), to_string(scores)));
  }
  if (mask.type() == ElementType::kBool) {
    bias_ = Array(ElementType::kFloat, mask.shape());
    const auto from = mask.as<uint8_t>();
    const auto to = bias_.mutable_as<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] != 0 ? 0.0F : kNegInf;
  } else {
    bias_ = to_floats(mask);
  }
  strides_.assign(3, 0);
  const Strides dense = dense_strides(mask.shape());
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (mask.shape()[i] != 1) strides_[4 - rank + i] = dense[i];
  }
}

void MaskBias::add(int64_t batch, int64_t head, int64_t row, std::span<float> scores) const {
  if (seen_ < 0) return;
  const float* bias =
      bias_.as<float>().data() + batch * strides_[0] + head * strides_[1] + row * strides_[2];
  if (repeated_) {
    for (float& score : scores) score += *bias;
    return;
  }
  const auto seen = static_cast<size_t>(seen_);
  for (size_t t = 0; t < seen; ++t) {  // -inf hides, also what is no number
    scores[t] = bias[t] == kNegInf ? kNegInf : scores[t] + bias[t];
  }
  std::fill(scores.begin() + seen_, scores.end(), kNegInf);
}

Array heads_first(const OpCall& call, const Array& array, int64_t heads) {
  const Shape& shape = array.shape();
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0) {
    call.fail(
        fmt::format("an input of shape {} does not hold {} heads as [batch, tokens, "
                    "heads * dim]",
                    to_string(shape), heads));
  }
  constexpr int64_t kPerm[] = {0, 2, 1, 3};
  return transposed(array.reshaped({shape[0], shape[1], heads, shape[2] / heads}), kPerm);
}

Array heads_last(const Array& array) {
  constexpr int64_t kPerm[] = {0, 2, 1, 3};
  const Shape& shape = array.shape();
  return transposed(array, kPerm).reshaped({shape[0], shape[2], shape[1] * shape[3]});
}

Array append_rows(const OpCall& call, const Array& past, const Array& rows) {
  const Shape& a = past.shape();
  const Shape& b = rows.shape();
  const bool fits = past.type() == rows.type() && a.size() == 4 && b.size() == 4 && a[0] == b[0] &&
                    a[1] == b[1] && a[3] == b[3];
  if (!fits) {
    call.fail(fmt::format("new rows {} {} do not join a past of {} {}",
                          ir::element_type_name(rows.type()), to_string(b),
                          ir::element_type_name(past.type()), to_string(a)));
  }
  Array out(rows.type(), {b[0], b[1], a[2] + b[2], b[3]});
  const size_t size = ir::element_bytes(rows.type()) * static_cast<size_t>(b[3]);
  const size_t old_bytes = size * static_cast<size_t>(a[2]);
  const size_t new_bytes = size * static_cast<size_t>(b[2]);
  std::byte* to = out.mutable_bytes().data();
  for (int64_t head = 0; head < b[0] * b[1]; ++head) {
    const auto at = static_cast<size_t>(head);
    if (old_bytes > 0) std::memcpy(to, past.bytes().data() + at * old_bytes, old_bytes);
    if (new_bytes > 0) {
      std::memcpy(to + old_bytes, rows.bytes().data() + at * new_bytes, new_bytes);
    }
    to += old_bytes + new_bytes;
  }
  return out;
}

}  // namespace kvern::eval
