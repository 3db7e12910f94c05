// Qwen 3 (arXiv:2505.09388): Llama with an RMS norm of every head of q and k.
#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

constexpr std::initializer_list<LayerTensor> kQwen3Norms = {
    {"attn_norm", "input_layernorm"},
    {"mlp_norm", "post_attention_layernorm"},
    {"attn.q_norm", "self_attn.q_norm"},
    {"attn.k_norm", "self_attn.k_norm"}};

constexpr std::initializer_list<LayerTensor> kQwen3GgufNorms = {{"attn_norm", "attn_norm"},
                                                                {"mlp_norm", "ffn_norm"},
                                                                {"attn.q_norm", "attn_q_norm"},
                                                                {"attn.k_norm", "attn_k_norm"}};

}  // namespace

void qwen3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "qwen3", {.num_kv_heads = 32, .head_dim = 128});
  c.qk_norm = QkNorm::kPerHead;
  read_hf_rope(config, {}, c, model.warnings);
  read_upper_windows(config, c);
  const bool tied = config.bool_or("tie_word_embeddings", false);
  const bool bias = config.bool_or("attention_bias", false);
  bind_hf_decoder(c, tied, {.qkv = bias, .output = bias}, kQwen3Norms, weights, config.file());
  finish_decoder(c, weights, model);
}

void qwen3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "qwen3");
  c.qk_norm = QkNorm::kPerHead;
  read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kHalves, kQwen3GgufNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
