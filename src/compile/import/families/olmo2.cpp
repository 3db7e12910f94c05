// OLMo 2 (arXiv:2501.00656): norms after each block only, and an RMS norm of the whole rows of q
// and k before they turn.
#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

constexpr std::initializer_list<LayerTensor> kNorms = {
    {"attn_post_norm", "post_attention_layernorm"},
    {"mlp_post_norm", "post_feedforward_layernorm"},
    {"attn.q_norm", "self_attn.q_norm"},
    {"attn.k_norm", "self_attn.k_norm"}};

constexpr std::initializer_list<LayerTensor> kGgufNorms = {
    {"attn_post_norm", "post_attention_norm"},
    {"mlp_post_norm", "post_ffw_norm"},
    {"attn.q_norm", "attn_q_norm"},
    {"attn.k_norm", "attn_k_norm"}};

}  // namespace

void olmo2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "olmo2", {.norm_eps = 1e-5});
  c.norm_places = NormPlaces::kPost;
  c.qk_norm = QkNorm::kWholeRow;
  read_hf_rope(config, {}, c, model.warnings);
  const bool tied = config.bool_or("tie_word_embeddings", false);
  const bool bias = config.bool_or("attention_bias", false);
  bind_hf_decoder(c, tied, {.qkv = bias, .output = bias}, kNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

void olmo2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "olmo2");
  c.norm_places = NormPlaces::kPost;
  c.qk_norm = QkNorm::kWholeRow;
  read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kHalves, kGgufNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
