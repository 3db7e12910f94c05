// Gemma 3, text part (arXiv:2503.19786): Gemma 2 with a norm of every head of q and k instead of
// the caps, and a rope of its own for the layers with a window, five of six.
#include <cmath>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

constexpr int64_t kPattern = 6;  // every sixth layer sees everything
constexpr double kFullBase = 1e6;
constexpr double kSlidingBase = 1e4;
// The one size whose scale is not 1 / sqrt(head_dim), which GGUF does not keep.
constexpr int64_t kLayersOf27B = 62;

float scale_of(int64_t scalar) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(scalar)));
}

void set_fixed_parts(DecoderConfig& c) {
  c.norm_places = NormPlaces::kSandwich;
  c.qk_norm = QkNorm::kPerHead;
  c.embedding_multiplier = std::sqrt(static_cast<float>(c.hidden_size));
}

// Layers with a window turn by ropes[1].
void give_ropes(DecoderConfig& c) {
  for (DecoderLayer& layer : c.layers) layer.rope = layer.window > 0 ? 1 : 0;
}

// As transformers has them: files name only what differs.
constexpr HfDefaults kDefaults = {.num_layers = 26,
                                  .hidden_size = 2304,
                                  .ffn_size = 9216,
                                  .num_heads = 8,
                                  .num_kv_heads = 4,
                                  .head_dim = 256,
                                  .vocabulary_size = 262208,
                                  .max_context_length = 131072,
                                  .activation_field = "hidden_activation",
                                  .activation = "gelu_pytorch_tanh"};

}  // namespace

void gemma3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "gemma3", kDefaults);
  config.ignore({"hidden_act"});
  set_fixed_parts(c);
  c.attention_scale = scale_of(config.size_or("query_pre_attn_scalar", 256));
  c.final_softcap = read_hf_softcap(config, "final_logit_softcapping", 0.0);
  if (read_hf_softcap(config, "attn_logit_softcapping", 0.0) != 0) {
    config.unsupported_field("attn_logit_softcapping", "is set; Gemma 3 caps no scores");
  }
  config.must_be("use_bidirectional_attention", false, "tokens would see later ones");
  const int64_t window = read_window(config, 4096);
  // An underscore is how newer versions of transformers save what they no longer read.
  const int64_t older = config.size_or("_sliding_window_pattern", kPattern);
  const int64_t pattern = config.size_or("sliding_window_pattern", older);
  set_windows(
      c,
      read_sliding_layers(config, c.num_layers, [&](int64_t i) { return (i + 1) % pattern != 0; }),
      window);
  read_hf_rope_per_type(config, kFullBase, kSlidingBase, c);
  give_ropes(c);
  const bool tied = config.bool_or("tie_word_embeddings", true);
  const bool bias = config.bool_or("attention_bias", false);
  bind_hf_gemma(c, tied, {.qkv = bias, .output = bias}, weights, config.file());
  finish_decoder(c, weights, model);
}

void gemma3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "gemma3");
  c.activation = Activation::kGeluTanh;
  set_fixed_parts(c);
  c.attention_scale =
      scale_of(c.num_layers == kLayersOf27B ? c.hidden_size / c.num_heads : c.head_dim);
  c.final_softcap = fields.has("final_logit_softcapping")
                        ? static_cast<float>(fields.positive("final_logit_softcapping"))
                        : 0.0f;
  const int64_t window = fields.size_or("attention.sliding_window", 0);
  const int64_t pattern = fields.size_or("attention.sliding_window_pattern", kPattern);
  c.layers.resize(static_cast<size_t>(c.num_layers));
  for (size_t i = 0; i < c.layers.size(); ++i) {
    if ((static_cast<int64_t>(i) + 1) % pattern != 0) c.layers[i].window = window;
  }
  read_gguf_rope(fields, weights, c, kFullBase);
  RopeConfig sliding;  // never scaled
  sliding.base = fields.positive_or("rope.freq_base_swa", kSlidingBase);
  sliding.rotary_dim = c.ropes[0].rotary_dim;
  c.ropes.push_back(sliding);
  give_ropes(c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kHalves, kGgufSandwichQkNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
