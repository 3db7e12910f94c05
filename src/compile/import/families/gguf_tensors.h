// The tensors of GGUF decoders, under their usual names.
#pragma once

#include <initializer_list>

#include "compile/import/families/binder.h"
#include "compile/import/families/decoder.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {

// How q and k lie in the file: in halves, as Kvern turns them, or as neighbouring pairs.
enum class GgufRows { kHalves, kPairs };

// token_embd, output_norm, output (by presence), and for every layer attn_{q,k,v,output},
// ffn_{gate,up,down} and `norms`, which name a tensor below blk.N. Biases of linears by presence.
void bind_gguf_decoder(const DecoderConfig& config, GgufRows rows,
                       std::initializer_list<LayerTensor> norms, WeightSet& weights,
                       const std::string& who);

// token_embd, output_norm and output; biases by presence.
void bind_gguf_ends(Binder& binder);

// `name`.weight, and its .bias by presence.
void bind_gguf_linear(Binder& binder, const std::string& ours, const std::string& theirs,
                      int32_t unpermute_heads = 0);

// One layer of GPT-2 and GPT-NeoX: attn_qkv with q, k and v below each other, attn_output, ffn_up
// and ffn_down, attn_norm and ffn_norm; biases by presence.
void bind_gguf_gpt_layer(Binder& binder, const DecoderConfig& config, int64_t layer);

inline constexpr std::initializer_list<LayerTensor> kGgufPreNorms = {{"attn_norm", "attn_norm"},
                                                                     {"mlp_norm", "ffn_norm"}};

inline constexpr std::initializer_list<LayerTensor> kGgufSandwichNorms = {
    {"attn_norm", "attn_norm"},
    {"attn_post_norm", "post_attention_norm"},
    {"mlp_norm", "ffn_norm"},
    {"mlp_post_norm", "post_ffw_norm"}};
inline constexpr std::initializer_list<LayerTensor> kGgufSandwichQkNorms = {
    {"attn_norm", "attn_norm"},     {"attn_post_norm", "post_attention_norm"},
    {"mlp_norm", "ffn_norm"},       {"mlp_post_norm", "post_ffw_norm"},
    {"attn.q_norm", "attn_q_norm"}, {"attn.k_norm", "attn_k_norm"}};

}  // namespace kvern::import
