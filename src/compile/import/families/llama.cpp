// Llama: pre-norm decoder with RMSNorm, rotary positions, grouped-query attention and a SwiGLU MLP
// (Touvron et al. 2023, arXiv:2302.13971). Its GGUF form also holds Mistral.
#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {

void llama_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "llama", {});
  read_hf_rope(config, {}, c, model.warnings);
  config.must_be("rope_interleaved", false, "neighbouring pairs would turn");
  const bool tied = config.bool_or("tie_word_embeddings", false);
  const bool bias = config.bool_or("attention_bias", false);
  const HfBiases biases{.qkv = bias, .output = bias, .mlp = config.bool_or("mlp_bias", false)};
  bind_hf_decoder(c, tied, biases, kPreNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

void llama_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "llama");
  read_gguf_rope(fields, weights, c);
  require_whole_heads(fields, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kPairs, kGgufPreNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
