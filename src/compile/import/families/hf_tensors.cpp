#include "compile/import/families/hf_tensors.h"

#include <fmt/format.h>

namespace kvern::import {
namespace {

void bind_linear(Binder& binder, const std::string& ours, const std::string& theirs, bool bias) {
  binder.plain(ours + ".weight", theirs + ".weight");
  if (bias) binder.plain(ours + ".bias", theirs + ".bias");
}

}  // namespace

std::string find_prefix(const WeightSet& weights, std::initializer_list<const char*> prefixes,
                        const std::string& tensor) {
  for (const char* prefix : prefixes) {
    if (weights.has_source(prefix + tensor)) return prefix;
  }
  return *prefixes.begin();
}

void bind_hf_attention(Binder& binder, const std::string& ours, const std::string& theirs,
                       const HfBiases& biases) {
  for (const char* part : {"q", "k", "v"}) {
    bind_linear(binder, fmt::format("{}attn.{}", ours, part),
                fmt::format("{}self_attn.{}_proj", theirs, part), biases.qkv);
  }
  bind_linear(binder, ours + "attn.o", theirs + "self_attn.o_proj", biases.output);
}

void bind_hf_mlp(Binder& binder, const std::string& ours, const std::string& theirs,
                 const HfBiases& biases) {
  for (const char* part : {"gate", "up", "down"}) {
    bind_linear(binder, fmt::format("{}mlp.{}", ours, part),
                fmt::format("{}mlp.{}_proj", theirs, part), biases.mlp);
  }
}

void bind_hf_head(Binder& binder, bool tied, const std::string& theirs) {
  if (tied && binder.weights().is_synthetic()) return;  // which would make one
  const bool bound = binder.weights().bind("head.weight", theirs);
  if (!tied) binder.want(bound, theirs);
}

void bind_hf_decoder(const DecoderConfig& config, bool tied, const HfBiases& biases,
                     std::initializer_list<LayerTensor> norms, WeightSet& weights,
                     const std::string& who) {
  Binder binder(weights, who);
  const std::string prefix = find_prefix(weights, {"model.", ""}, "embed_tokens.weight");
  binder.plain("embed.weight", prefix + "embed_tokens.weight");
  binder.plain("norm.weight", prefix + "norm.weight");
  bind_hf_head(binder, tied);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("{}layers.{}.", prefix, i);
    bind_hf_attention(binder, ours, theirs, biases);
    bind_hf_mlp(binder, ours, theirs, biases);
    for (const LayerTensor& norm : norms) {
      binder.plain(fmt::format("{}{}.weight", ours, norm.ours),
                   fmt::format("{}{}.weight", theirs, norm.theirs));
    }
  }
  binder.refuse_missing();
}

void bind_hf_gemma(const DecoderConfig& config, bool tied, const HfBiases& biases,
                   WeightSet& weights, const std::string& who) {
  // Alone, in the saved text-and-image model, and in that model's older form.
  const std::string prefix =
      find_prefix(weights, {"model.", "model.language_model.", "language_model.model.", ""},
                  "embed_tokens.weight");
  Binder binder(weights, who);
  const auto norm = [&](const std::string& ours, const std::string& theirs) {
    binder.want(weights.bind_offset(ours + ".weight", theirs + ".weight", 1.0), theirs + ".weight");
  };
  binder.plain("embed.weight", prefix + "embed_tokens.weight");
  const bool older = prefix == "language_model.model.";
  bind_hf_head(binder, tied, older ? "language_model.lm_head.weight" : "lm_head.weight");
  norm("norm", prefix + "norm");
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("{}layers.{}.", prefix, i);
    bind_hf_attention(binder, ours, theirs, biases);
    bind_hf_mlp(binder, ours, theirs, biases);
    norm(ours + "attn_norm", theirs + "input_layernorm");
    norm(ours + "attn_post_norm", theirs + "post_attention_layernorm");
    norm(ours + "mlp_norm", theirs + "pre_feedforward_layernorm");
    norm(ours + "mlp_post_norm", theirs + "post_feedforward_layernorm");
    if (config.qk_norm == QkNorm::kNone) continue;
    norm(ours + "attn.q_norm", theirs + "self_attn.q_norm");
    norm(ours + "attn.k_norm", theirs + "self_attn.k_norm");
  }
  binder.refuse_missing();
}

}  // namespace kvern::import
