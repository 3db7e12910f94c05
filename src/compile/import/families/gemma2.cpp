// Gemma 2 (arXiv:2408.00118): norms before and after each block, caps on scores and logits, GELU,
// and a window in every other layer. Norms of Hugging Face files lack the 1 that they add to gamma.
#include <cmath>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

// Half of the heads' input that the largest model scales by, which GGUF does not keep.
constexpr int64_t kLayersOf27B = 46;

float scale_of(int64_t scalar) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(scalar)));
}

void set_fixed_parts(DecoderConfig& c) {
  c.norm_places = NormPlaces::kSandwich;
  c.embedding_multiplier = std::sqrt(static_cast<float>(c.hidden_size));
}

}  // namespace

void gemma2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "gemma2",
                                  {.num_kv_heads = 4,
                                   .head_dim = 256,
                                   .activation_field = "hidden_activation",
                                   .activation = "gelu_pytorch_tanh"});
  // Second names in older files, which nothing reads.
  config.ignore({"hidden_act", "sliding_window_size"});
  set_fixed_parts(c);
  c.attention_scale = scale_of(config.size_or("query_pre_attn_scalar", 256));
  c.attention_softcap = read_hf_softcap(config, "attn_logit_softcapping", 50.0);
  c.final_softcap = read_hf_softcap(config, "final_logit_softcapping", 30.0);
  config.must_be("use_bidirectional_attention", false, "tokens would see later ones");
  const int64_t window = read_window(config, 4096);
  set_windows(c, read_sliding_layers(config, c.num_layers, [](int64_t i) { return i % 2 == 0; }),
              window);
  read_hf_rope(config, {}, c, model.warnings);
  const bool tied = config.bool_or("tie_word_embeddings", true);
  const bool bias = config.bool_or("attention_bias", false);
  bind_hf_gemma(c, tied, {.qkv = bias, .output = bias}, weights, config.file());
  finish_decoder(c, weights, model);
}

void gemma2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "gemma2");
  c.activation = Activation::kGeluTanh;
  set_fixed_parts(c);
  c.attention_scale =
      scale_of(c.num_layers == kLayersOf27B ? c.hidden_size / c.num_heads : c.head_dim);
  c.attention_softcap = static_cast<float>(fields.positive_or("attn_logit_softcapping", 50.0));
  c.final_softcap = static_cast<float>(fields.positive_or("final_logit_softcapping", 30.0));
  const int64_t window = fields.size_or("attention.sliding_window", 4096);
  c.layers.resize(static_cast<size_t>(c.num_layers));
  for (size_t i = 0; i < c.layers.size(); i += 2) c.layers[i].window = window;
  read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kHalves, kGgufSandwichNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
