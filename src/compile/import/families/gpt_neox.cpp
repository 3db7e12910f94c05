// GPT-NeoX and Pythia (arXiv:2204.06745): layer norms, biases, attention and MLP beside each other,
// and a quarter of each head that turns. Hugging Face files keep q, k and v head by head; GGUF
// files have them sorted.
#include <fmt/format.h>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

DecoderConfig read_sizes(const hf::Config& config) {
  DecoderConfig c = read_hf_sizes(config, "gpt_neox", {.activation = "gelu"});
  c.norm = NormKind::kLayer;
  c.norm_eps = static_cast<float>(config.positive_or("layer_norm_eps", 1e-5));
  c.gated_mlp = false;
  c.parallel_residual = config.bool_or("use_parallel_residual", true);
  if (c.num_kv_heads != c.num_heads || c.head_dim * c.num_heads != c.hidden_size) {
    hf::unsupported(config.file(),
                    "GPT-NeoX has as many KV heads as heads, which share the hidden "
                    "size");
  }
  return c;
}

void bind_both(Binder& binder, const std::string& ours, const std::string& theirs,
               bool bias = true) {
  binder.plain(ours + ".weight", theirs + ".weight");
  if (bias) binder.plain(ours + ".bias", theirs + ".bias");
}

void bind_qkv(Binder& binder, const DecoderConfig& c, const std::string& ours,
              const std::string& theirs, bool bias) {
  constexpr const char* kParts[] = {"q", "k", "v"};
  const auto heads = static_cast<int32_t>(c.num_heads);
  for (int32_t part = 0; part < 3; ++part) {
    const std::string name = ours + "attn." + kParts[part];
    WeightSet& weights = binder.weights();
    binder.want(weights.bind_head_part(name + ".weight", theirs + ".weight", heads, 3, part),
                theirs + ".weight");
    if (!bias) continue;
    binder.want(weights.bind_head_part(name + ".bias", theirs + ".bias", heads, 3, part),
                theirs + ".bias");
  }
}

}  // namespace

void gpt_neox_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_sizes(config);
  read_hf_rope(config,
               {.base_field = "rotary_emb_base", .partial_field = "rotary_pct", .partial = 0.25}, c,
               model.warnings);
  config.ignore({"rope_theta"});  // never read by this family
  const bool bias = config.bool_or("attention_bias", true);
  Binder binder(weights, config.file());
  const std::string prefix = find_prefix(weights, {"gpt_neox.", ""}, "embed_in.weight");
  binder.plain("embed.weight", prefix + "embed_in.weight");
  bind_both(binder, "norm", prefix + "final_layer_norm");
  bind_hf_head(binder, config.bool_or("tie_word_embeddings", false), "embed_out.weight");
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("{}layers.{}.", prefix, i);
    bind_both(binder, ours + "attn_norm", theirs + "input_layernorm");
    bind_both(binder, ours + "mlp_norm", theirs + "post_attention_layernorm");
    bind_qkv(binder, c, ours, theirs + "attention.query_key_value", bias);
    bind_both(binder, ours + "attn.o", theirs + "attention.dense", bias);
    bind_both(binder, ours + "mlp.up", theirs + "mlp.dense_h_to_4h");
    bind_both(binder, ours + "mlp.down", theirs + "mlp.dense_4h_to_h");
  }
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

void gpt_neox_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "gpt_neox", NormKind::kLayer);
  c.activation = Activation::kGeluErf;
  c.gated_mlp = false;
  c.parallel_residual = fields.bool_or("use_parallel_residual", true);
  read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  Binder binder(weights, gguf_who(file));
  bind_gguf_ends(binder);
  for (int64_t i = 0; i < c.num_layers; ++i) bind_gguf_gpt_layer(binder, c, i);
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
