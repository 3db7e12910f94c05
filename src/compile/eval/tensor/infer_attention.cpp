// Rules of the attention ops. Dims are named as in the ONNX standard: B batch, S new tokens,
// P past, L new keys, N heads, G key heads, D size of a head.
#include <fmt/format.h>

#include <algorithm>

#include "compile/eval/tensor/infer.h"

namespace kvern::eval {
namespace {

int64_t divided(const InferCall& call, int64_t whole, int64_t parts, const char* what) {
  if (parts <= 0 || whole % parts != 0) {
    call.fail(fmt::format("{} of {} cannot be cut into {} heads", what, whole, parts));
  }
  return whole / parts;
}

// A count of heads from the file, small enough to be multiplied.
int64_t heads_attr(const InferCall& call, const char* attr) {
  const int64_t heads = call.node.i(attr, 0);
  if (heads <= 0 || heads > (1 << 20)) {
    call.fail(fmt::format("attribute '{}' is {}; a number of heads is wanted", attr, heads));
  }
  return heads;
}

}  // namespace

Facts infer_attention(const InferCall& call) {
  const bool flat = call.rank(0) == 3;
  for (size_t i = 0; i < 3; ++i) call.want_rank(i, flat ? 3 : 4, flat ? 3 : 4);
  const int64_t batch = call.dim(0, 0);
  const int64_t heads = flat ? heads_attr(call, "q_num_heads") : call.dim(0, 1);
  const int64_t kv_heads = flat ? heads_attr(call, "kv_num_heads") : call.dim(1, 1);
  const int64_t rows = call.dim(0, -2);
  const int64_t past = call.has(4) ? call.dim(4, 2) : 0;
  const int64_t total = past + call.dim(1, -2);
  const int64_t dim_k = flat ? divided(call, call.dim(1, 2), kv_heads, "K") : call.dim(1, 3);
  const int64_t dim_v = flat ? divided(call, call.dim(2, 2), kv_heads, "V") : call.dim(2, 3);
  const Shape y = flat ? Shape{batch, rows, heads * dim_v} : Shape{batch, heads, rows, dim_v};
  return {{call.type(0), y, nullptr},
          {call.type(1), {batch, kv_heads, total, dim_k}, nullptr},
          {call.type(2), {batch, kv_heads, total, dim_v}, nullptr},
          {call.type(0), {batch, heads, rows, total}, nullptr}};
}

Facts infer_causal_conv(const InferCall& call) {
  call.want_rank(0, 3, 3);
  call.want_rank(1, 3, 3);
  const Shape state = {call.dim(0, 0), call.dim(0, 1), call.dim(1, 2) - 1};
  call.count(state);
  return {{call.type(0), call.shape(0), nullptr}, {call.type(0), state, nullptr}};
}

Facts infer_linear_attention(const InferCall& call) {
  for (size_t i = 0; i < 3; ++i) call.want_rank(i, 3, 3);
  const int64_t heads = heads_attr(call, "q_num_heads");
  const int64_t kv_heads = heads_attr(call, "kv_num_heads");
  const int64_t dim_k = divided(call, call.dim(0, 2), heads, "the query");
  const int64_t dim_v = divided(call, call.dim(2, 2), kv_heads, "the value");
  const ElementType state = call.has(3) ? call.type(3) : call.type(0);
  return {{call.type(0), {call.dim(0, 0), call.dim(0, 1), heads * dim_v}, nullptr},
          {state, {call.dim(0, 0), kv_heads, dim_k, dim_v}, nullptr}};
}

Facts infer_group_query_attention(const InferCall& call) {
  call.want_rank(0, 3, 3);
  const int64_t heads = heads_attr(call, "num_heads");
  const int64_t kv_heads = heads_attr(call, "kv_num_heads");
  const bool packed = !call.has(1);
  const int64_t dim =
      divided(call, call.dim(0, 2), packed ? heads + 2 * kv_heads : heads, "the query");
  const auto total = call.integers(6);
  if (total.size() != 1) call.fail("total_sequence_length must be one number");
  int64_t rows = total[0];
  if (call.has(3)) {
    call.want_rank(3, 4, 4);
    rows = std::max(rows, call.dim(3, 2));
    if (call.node.i("sliding_window_cache", 0) != 0) rows = call.dim(3, 2);
  }
  const Shape present = {call.dim(0, 0), kv_heads, rows, dim};
  call.count(present);
  const ElementType cache = call.has(3) ? call.type(3) : call.type(0);
  return {{call.type(0), {call.dim(0, 0), call.dim(0, 1), heads * dim}, nullptr},
          {cache, present, nullptr},
          {cache, present, nullptr}};
}

Facts infer_multi_head_attention(const InferCall& call) {
  const int64_t heads = heads_attr(call, "num_heads");
  call.want_rank(0, 3, 5);
  const bool packed = call.rank(0) == 5;  // [B, S, N, 3, D]
  if (call.rank(0) == 4) call.fail("the query must be [B, S, N * D] or [B, S, N, 3, D]");
  const int64_t batch = call.dim(0, 0);
  const int64_t rows = call.dim(0, 1);
  const int64_t dim = packed ? call.dim(0, 4) : divided(call, call.dim(0, 2), heads, "the query");
  int64_t dim_v = dim;
  int64_t keys = rows;
  if (!packed && call.has(1)) {  // [B, L, N * D], [B, L, N, 2, D] or a past [B, N, L, D]
    call.want_rank(1, 3, 5);
    keys = call.rank(1) == 4 ? call.dim(1, 2) : call.dim(1, 1);
  }
  if (!packed && call.has(2)) {
    dim_v = call.rank(2) == 3 ? divided(call, call.dim(2, 2), heads, "the value") : call.dim(2, -1);
  }
  const int64_t past = call.has(6) ? call.dim(6, 2) : 0;
  const int64_t total = past + keys;
  return {{call.type(0), {batch, rows, heads * dim_v}, nullptr},
          {call.type(0), {batch, heads, total, dim}, nullptr},
          {call.type(0), {batch, heads, total, dim_v}, nullptr},
          {call.type(0), {batch, heads, rows, total}, nullptr}};
}

Facts infer_ms_attention(const InferCall& call) {
  call.want_rank(0, 3, 3);
  call.want_rank(1, 2, 2);
  const int64_t heads = heads_attr(call, "num_heads");
  const auto sizes = call.node.ints("qkv_hidden_sizes");
  const int64_t hidden_v = sizes.size() == 3 ? sizes[2] : call.dim(1, 1) / 3;
  const int64_t hidden_k = sizes.size() == 3 ? sizes[1] : call.dim(1, 1) / 3;
  const int64_t dim = divided(call, hidden_k, heads, "the key");
  const int64_t past = call.has(4) ? call.dim(4, 3) : 0;
  const int64_t total = past + call.dim(0, 1);
  return {{call.type(0), {call.dim(0, 0), call.dim(0, 1), hidden_v}, nullptr},
          {call.type(0), {2, call.dim(0, 0), heads, total, dim}, nullptr}};
}

}  // namespace kvern::eval
