// Granite 3: Llama with four constants: on the embedding, on what each block adds, on scores and on
// logits.
#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {

void granite_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "granite", {});
  c.embedding_multiplier = static_cast<float>(config.positive_or("embedding_multiplier", 1.0));
  c.residual_multiplier = static_cast<float>(config.positive_or("residual_multiplier", 1.0));
  c.attention_scale = static_cast<float>(config.positive_or("attention_multiplier", 1.0));
  c.logits_multiplier = static_cast<float>(1.0 / config.positive_or("logits_scaling", 1.0));
  read_hf_rope(config, {}, c, model.warnings);
  const bool tied = config.bool_or("tie_word_embeddings", false);
  const bool bias = config.bool_or("attention_bias", false);
  const HfBiases biases{.qkv = bias, .output = bias, .mlp = config.bool_or("mlp_bias", false)};
  bind_hf_decoder(c, tied, biases, kPreNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

void granite_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "granite");
  c.embedding_multiplier = static_cast<float>(fields.positive_or("embedding_scale", 1.0));
  c.residual_multiplier = static_cast<float>(fields.positive_or("residual_scale", 1.0));
  c.logits_multiplier = static_cast<float>(1.0 / fields.positive_or("logit_scale", 1.0));
  // Absent, readers of the format take 1 / sqrt(head_dim).
  c.attention_scale =
      fields.has("attention.scale") ? static_cast<float>(fields.positive("attention.scale")) : 0.0f;
  read_gguf_rope(fields, weights, c);
  require_whole_heads(fields, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kPairs, kGgufPreNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
