// The tensors of Hugging Face decoders, under their usual names.
#pragma once

#include <initializer_list>

#include "compile/import/families/binder.h"
#include "compile/import/families/decoder.h"
#include "compile/import/hf/config.h"

namespace kvern::import {

// One tensor of every layer.
struct LayerTensor {
  const char* ours;    // below layers.N.
  const char* theirs;  // below the file's layer
};

// "model." or "" or what else stands in front of `tensor`, whichever of `prefixes` the file has;
// the first one when it has none.
std::string find_prefix(const WeightSet& weights, std::initializer_list<const char*> prefixes,
                        const std::string& tensor);

struct HfBiases {
  bool qkv = false;
  bool output = false;  // attention's o
  bool mlp = false;
};

// q_proj, k_proj, v_proj, o_proj and gate_proj, up_proj, down_proj of layer `theirs`
// ("model.layers.3.").
void bind_hf_attention(Binder& binder, const std::string& ours, const std::string& theirs,
                       const HfBiases& biases);
void bind_hf_mlp(Binder& binder, const std::string& ours, const std::string& theirs,
                 const HfBiases& biases);

// The head, if it is not the embedding. The files of tied models may hold one nevertheless; like
// transformers, we then use it.
void bind_hf_head(Binder& binder, bool tied, const std::string& theirs = "lm_head.weight");

// embed_tokens, norm, lm_head (unless `tied`) and for every layer the above and `norms`.
void bind_hf_decoder(const DecoderConfig& config, bool tied, const HfBiases& biases,
                     std::initializer_list<LayerTensor> norms, WeightSet& weights,
                     const std::string& who);

// The norms of a pre-norm decoder.
inline constexpr std::initializer_list<LayerTensor> kPreNorms = {
    {"attn_norm", "input_layernorm"}, {"mlp_norm", "post_attention_layernorm"}};

// Gemma 2 and 3: sandwich norms (and q/k norms where `config` has them), all less 1 in the file.
void bind_hf_gemma(const DecoderConfig& config, bool tied, const HfBiases& biases,
                   WeightSet& weights, const std::string& who);

}  // namespace kvern::import
