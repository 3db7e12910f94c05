// The oracle: f32 queries against K and V decoded from their pages, one query at a time, libm's
// exp. A tile of tokens shares the decoding of a split, which changes no result.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/kv/codec.h"
#include "kernels/cpu/kv_attention/impls.h"
#include "kernels/cpu/kv_attention/tiles.h"
#include "kernels/cpu/launch.h"

namespace kvern::kernels::cpu {
namespace {

constexpr int32_t kTileTokens = 16;

// A thread's memory. group: query heads per KV head.
struct Workspace {
  float* k;    // [kSplitTokens, dim_k]
  float* v;    // [kSplitTokens, dim_v]
  float* out;  // [tokens * group, dim_v]: running sums of p V, relative to `max`
  float* max;  // [tokens * group]
  float* sum;  // [tokens * group]
};

int64_t workspace_floats(const KvAttentionDesc& desc) {
  const int64_t rows = int64_t{kTileTokens} * (desc.heads / desc.kv_heads);
  return kSplitTokens * (desc.dim_k + desc.dim_v) + rows * (desc.dim_v + 2);
}

Workspace carve(const KvAttentionDesc& desc, float* at) {
  const int64_t rows = int64_t{kTileTokens} * (desc.heads / desc.kv_heads);
  Workspace w{};
  w.k = at;
  w.v = w.k + kSplitTokens * desc.dim_k;
  w.out = w.v + kSplitTokens * desc.dim_v;
  w.max = w.out + rows * desc.dim_v;
  w.sum = w.max + rows;
  return w;
}

// Eight fixed lanes, folded 4, 2, 1: one order for every dim, wide enough for the vector unit.
float dot(const float* a, const float* b, int64_t dim) {
  float lane[8] = {};
  int64_t i = 0;
  for (; i + 8 <= dim; i += 8) {
    for (int64_t l = 0; l < 8; ++l) lane[l] += a[i + l] * b[i + l];
  }
  for (int64_t l = 0; i + l < dim; ++l) lane[l] += a[i + l] * b[i + l];
  for (int64_t width = 4; width >= 1; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

// One query: its head's slope of ALiBi, and its position relative to a split's start.
struct Query {
  const float* q;
  float slope;
  int64_t position;
};

// Adds positions [begin, end) of a split (relative to its start) to one query's running result.
void attend_split(const KvAttentionDesc& desc, const Query& query, const Workspace& w, int64_t row,
                  int64_t begin, int64_t end) {
  float p[kSplitTokens];
  float split_max = -std::numeric_limits<float>::infinity();
  for (int64_t i = begin; i < end; ++i) {
    p[i] = desc.scale * dot(query.q, w.k + i * desc.dim_k, desc.dim_k);
    if (desc.softcap > 0.0f) p[i] = desc.softcap * std::tanh(p[i] / desc.softcap);
    p[i] += query.slope * static_cast<float>(i - query.position);
    split_max = std::max(split_max, p[i]);
  }
  float split_out[kMaxHeadDim] = {};
  float split_sum = 0.0f;
  for (int64_t i = begin; i < end; ++i) {
    const float weight = std::exp(p[i] - split_max);
    const float* v = w.v + i * desc.dim_v;
    split_sum += weight;
    for (int64_t d = 0; d < desc.dim_v; ++d) split_out[d] += weight * v[d];
  }
  const float max = std::max(w.max[row], split_max);
  const float keep = std::exp(w.max[row] - max);
  const float take = std::exp(split_max - max);
  float* out = w.out + row * desc.dim_v;
  for (int64_t d = 0; d < desc.dim_v; ++d) out[d] = out[d] * keep + split_out[d] * take;
  w.sum[row] = w.sum[row] * keep + split_sum * take;
  w.max[row] = max;
}

class PlainTask {
 public:
  PlainTask(const KvAttentionDesc& desc, const KvAttentionArgs& args, const QueryTile& tile,
            int64_t kv_head, const Workspace& w)
      : desc_(desc), args_(args), tile_(tile), kv_head_(kv_head), w_(w) {}

  void run() {
    const int64_t group = desc_.heads / desc_.kv_heads;
    const int64_t rows = tile_.tokens * group;
    std::fill_n(w_.out, rows * desc_.dim_v, 0.0f);
    std::fill_n(w_.max, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(w_.sum, rows, 0.0f);
    const int64_t end = tile_.position + tile_.tokens;
    const int64_t first = first_visible(desc_, tile_.position);
    for (int64_t split = first / kSplitTokens * kSplitTokens; split < end; split += kSplitTokens) {
      decode(split, std::max(first, split), std::min(end, split + kSplitTokens));
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t position = tile_.position + row / group;
        const int64_t from = std::max(first_visible(desc_, position), split);
        const int64_t to = std::min(position + 1, split + kSplitTokens);
        if (from >= to) continue;
        attend_split(desc_, query(row, group, split), w_, row, from - split, to - split);
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (args_.sinks != nullptr) join_sink(row, args_.sinks[kv_head_ * group + row % group]);
      float* y = args_.y + (tile_.first_row + row / group) * args_.y_stride +
                 (kv_head_ * group + row % group) * desc_.dim_v;
      const float* out = w_.out + row * desc_.dim_v;
      for (int64_t d = 0; d < desc_.dim_v; ++d) y[d] = out[d] / w_.sum[row];
    }
  }

 private:
  Query query(int64_t row, int64_t group, int64_t split) const {
    const int64_t head = kv_head_ * group + row % group;
    return {args_.q + (tile_.first_row + row / group) * args_.q_stride + head * desc_.dim_k,
            args_.alibi == nullptr ? 0.0f : args_.alibi[head],
            tile_.position + row / group - split};
  }

  void join_sink(int64_t row, float sink) const {
    const float max = std::max(w_.max[row], sink);
    const float keep = std::exp(w_.max[row] - max);
    float* out = w_.out + row * desc_.dim_v;
    for (int64_t d = 0; d < desc_.dim_v; ++d) out[d] *= keep;
    w_.sum[row] = w_.sum[row] * keep + std::exp(sink - max);
  }

  void decode(int64_t split, int64_t begin, int64_t end) const {
    const KvPages& pages = args_.step->kv[static_cast<size_t>(desc_.kv_group)];
    const KvRange k = KvRange::k_of(desc_);
    const KvRange v = KvRange::v_of(desc_);
    for (int64_t p = begin; p < end; ++p) {
      const std::byte* page = page_of(pages, tile_.sequence, p);
      const int64_t token = p % pages.page_tokens;
      decode_kv_plain(k, k.codes(page, kv_head_, token), k.scales(page, kv_head_, token),
                      w_.k + (p - split) * desc_.dim_k);
      decode_kv_plain(v, v.codes(page, kv_head_, token), v.scales(page, kv_head_, token),
                      w_.v + (p - split) * desc_.dim_v);
    }
  }

  const KvAttentionDesc& desc_;
  const KvAttentionArgs& args_;
  const QueryTile& tile_;
  int64_t kv_head_;
  Workspace w_;
};

}  // namespace

void kv_attention_plain(const KvAttentionDesc& desc, const KvAttentionArgs& args) {
  const std::vector<QueryTile> tiles = cut_tiles(desc, *args.step, kTileTokens);
  device::CpuStream& stream = cpu_stream(args.stream);
  const int64_t floats = workspace_floats(desc);
  auto* scratch = reinterpret_cast<float*>(
      stream.scratch(static_cast<size_t>(floats * stream.pool().num_threads()) * sizeof(float)));
  stream.pool().parallel_for(
      static_cast<int64_t>(tiles.size()) * desc.kv_heads, [&](int64_t task, int thread) {
        PlainTask(desc, args, tiles[static_cast<size_t>(task / desc.kv_heads)],
                  task % desc.kv_heads, carve(desc, scratch + thread * floats))
            .run();
      });
}

}  // namespace kvern::kernels::cpu
