// Rotary position embedding: the standard's op and com.microsoft's, whose inputs stand in another
// order.
#include <fmt/format.h>

#include "compile/eval/tensor/attention_core.h"
#include "compile/eval/tensor/attention_ops.h"
#include "compile/eval/tensor/element.h"
#include "compile/eval/tensor/floats.h"
#include "compile/eval/tensor/rotary.h"

namespace kvern::eval {
namespace {

// Positions of [batch, tokens]: given so, or as the first one of all sequences.
std::vector<int64_t> positions_of(const OpCall& call, size_t index, int64_t batch, int64_t tokens) {
  std::vector<int64_t> given = integers_of(call, index);
  if (given.size() == 1 && batch * tokens != 1) {
    const int64_t first = given[0];
    given.resize(static_cast<size_t>(batch * tokens));
    for (int64_t i = 0; i < batch * tokens; ++i) {
      given[static_cast<size_t>(i)] =
          static_cast<int64_t>(static_cast<uint64_t>(first) + static_cast<uint64_t>(i % tokens));
    }
  }
  if (static_cast<int64_t>(given.size()) != batch * tokens) {
    call.fail(fmt::format("there are {} position ids for {} sequences of {} tokens", given.size(),
                          batch, tokens));
  }
  return given;
}

Array rotated_any(const OpCall& call, const RotaryTables& tables, int64_t heads,
                  int64_t wanted_dim) {
  const Array& x = call.in(0);
  if (x.rank() != 3 && x.rank() != 4) {
    call.fail(fmt::format("input 0 has shape {}; its rank must be 3 or 4", to_string(x.shape())));
  }
  if (x.rank() == 4) return rotate_heads(call, x, tables, wanted_dim);
  return heads_last(rotate_heads(call, heads_first(call, x, heads), tables, wanted_dim));
}

}  // namespace

RotaryTables rotary_tables(const OpCall& call, size_t cos, size_t sin) {
  RotaryTables tables;
  tables.cos = floats_in(call, cos);
  tables.sin = floats_in(call, sin);
  if (tables.cos.shape() != tables.sin.shape() || tables.cos.rank() < 2) {
    call.fail(fmt::format("cos of shape {} and sin of shape {} must be equal, of rank 2 or 3",
                          to_string(tables.cos.shape()), to_string(tables.sin.shape())));
  }
  return tables;
}

Array rotate_heads(const OpCall& call, const Array& x, const RotaryTables& tables,
                   int64_t wanted_dim) {
  const int64_t batch = x.shape()[0], heads = x.shape()[1], tokens = x.shape()[2];
  const int64_t dim = x.shape()[3];
  const int64_t half = tables.cos.shape().back();
  const int64_t table_rows = half == 0 ? 0 : tables.cos.count() / half;
  if (half * 2 > dim || (wanted_dim != 0 && wanted_dim != half * 2)) {
    call.fail(
        fmt::format("tables of {} columns do not rotate {} of {} dims", half, wanted_dim, dim));
  }
  if (static_cast<int64_t>(tables.rows.size()) != batch * tokens) {
    call.fail(fmt::format("cos and sin have rows for {} tokens, there are {} sequences of {}",
                          tables.rows.size(), batch, tokens));
  }
  for (const int64_t row : tables.rows) {
    if (row < 0 || row >= table_rows) {
      call.fail(fmt::format("position {} is beyond cos and sin of {} rows", row, table_rows));
    }
  }
  Array out = to_floats(x);
  const float* cos = tables.cos.as<float>().data();
  const float* sin = tables.sin.as<float>().data();
  float* y = out.mutable_as<float>().data();
  // Element i turns with its partner: the neighbour, or the one half a table further.
  const int64_t step = tables.interleaved ? 2 : 1;
  const int64_t partner = tables.interleaved ? 1 : half;
  for (int64_t at = 0; at < batch * heads * tokens; ++at, y += dim) {
    const int64_t token = at / (heads * tokens) * tokens + at % tokens;
    const int64_t row = tables.rows[static_cast<size_t>(token)] * half;
    for (int64_t i = 0; i < half; ++i) {
      const float a = y[i * step];
      const float b = y[i * step + partner];
      y[i * step] = cos[row + i] * a - sin[row + i] * b;
      y[i * step + partner] = sin[row + i] * a + cos[row + i] * b;
    }
  }
  return from_floats(out, x.type());
}

Arrays eval_rotary(const OpCall& call) {
  RotaryTables tables = rotary_tables(call, 1, 2);
  tables.interleaved = call.node.i("interleaved", 0) != 0;
  const Array& x = call.in(0);
  const int64_t batch = x.rank() == 0 ? 0 : x.shape()[0];
  const int64_t tokens = x.rank() == 4 ? x.shape()[2] : x.rank() == 3 ? x.shape()[1] : 0;
  if (call.has(3)) {
    tables.rows = positions_of(call, 3, batch, tokens);
  } else {  // [batch, tokens, half], one sequence for all of them where its batch is 1
    const Shape& shape = tables.cos.shape();
    const bool fits =
        shape.size() == 3 && (shape[0] == batch || shape[0] == 1) && shape[1] == tokens;
    if (!fits) {
      call.fail(fmt::format("without position_ids cos must be [{}, {}, half], got {}", batch,
                            tokens, to_string(shape)));
    }
    for (int64_t i = 0; i < batch * tokens; ++i) {
      tables.rows.push_back(shape[0] == 1 ? i % tokens : i);
    }
  }
  return {rotated_any(call, tables, call.node.i("num_heads", 0),
                      call.node.i("rotary_embedding_dim", 0))};
}

Arrays eval_ms_rotary(const OpCall& call) {
  RotaryTables tables = rotary_tables(call, 2, 3);
  tables.interleaved = call.node.i("interleaved", 0) != 0;
  if (call.node.i("is_packed_batching", 0) != 0)
    call.unsupported("packed batching is not supported");
  if (call.node.f("scale", 1.0) != 1.0) call.unsupported("a scale other than 1 is not supported");
  const Array& x = call.in(0);
  if (x.rank() != 3 && x.rank() != 4) call.fail("the input must be of rank 3 or 4");
  tables.rows = positions_of(call, 1, x.shape()[0], x.rank() == 4 ? x.shape()[2] : x.shape()[1]);
  int64_t heads = call.node.i("num_heads", 0);
  const int64_t half = tables.cos.shape().back();
  if (heads == 0 && x.rank() == 3 && half > 0) heads = x.shape()[2] / (2 * half);
  return {rotated_any(call, tables, heads, call.node.i("rotary_embedding_dim", 0))};
}

}  // namespace kvern::eval
