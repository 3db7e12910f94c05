// Llama: pre-norm decoder with RMSNorm, rotary positions, grouped-query attention and a SwiGLU MLP
// (Touvron et al. 2023, arXiv:2302.13971).
#pragma once

#include <vector>

#include "compile/import/families/weight_set.h"
#include "compile/import/import.h"

namespace kvern::import {

struct LlamaConfig {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t ffn_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;  // of a head; even
  double rope_base = 10000.0;
  float norm_eps = 1e-5f;
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;
};

// Names that `weights` must have bound: embed.weight, norm.weight and per layer
// layers.N.{attn_norm, attn.q, attn.k, attn.v, attn.o, mlp_norm, mlp.gate, mlp.up,
// mlp.down}.weight. Optional: head.weight (else tied to embed.weight) and a .bias beside every
// linear's .weight.
void build_llama(const LlamaConfig& config, WeightSet& weights, ir::Graph& graph);

// One slot per layer.
std::vector<SlotInfo> llama_slots(const LlamaConfig& config);

}  // namespace kvern::import
