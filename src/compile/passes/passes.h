// Every pass, one file each; pipeline.cpp fixes their order.
#pragma once

#include "compile/passes/pipeline.h"

namespace kvern::passes {

// Pure nodes of literal inputs become literals: rope_frequencies. Results above 4096 elements stay.
PassReport constant_folding(ir::Graph& graph);
// Nodes that no output needs go, and weights that no node reads. Inputs stay: they are the graph's
// interface.
PassReport dead_code(ir::Graph& graph);
// q, k, v of one attention, and gate and up of one MLP, are made by one linear and a split.
PassReport join_linears(ir::Graph& graph);
// mul(silu(gate), up) -> silu_mul(gate, up), and both forms of gelu alike.
PassReport gate_mul(ir::Graph& graph);
// rms_norm(add(x, residual)) -> add_rms_norm(x, residual); the sum stays available.
PassReport residual_norm(ir::Graph& graph);
// rope(q), rope(k), kv_append(k, v) -> qkv_rope_append(q, k, v)
PassReport rope_append(ir::Graph& graph);
// After the last read of the KV cache only the rows whose logits are wanted are computed.
PassReport last_rows(ir::Graph& graph);

}  // namespace kvern::passes
