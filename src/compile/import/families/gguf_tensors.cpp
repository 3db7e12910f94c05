#include "compile/import/families/gguf_tensors.h"

#include <fmt/format.h>

namespace kvern::import {

void bind_gguf_linear(Binder& binder, const std::string& ours, const std::string& theirs,
                      int32_t unpermute_heads) {
  WeightSet& weights = binder.weights();
  binder.want(weights.bind(ours + ".weight", theirs + ".weight", unpermute_heads),
              theirs + ".weight");
  weights.bind(ours + ".bias", theirs + ".bias", unpermute_heads);
}

void bind_gguf_ends(Binder& binder) {
  binder.plain("embed.weight", "token_embd.weight");
  bind_gguf_linear(binder, "norm", "output_norm");
  binder.weights().bind("head.weight", "output.weight");
  binder.weights().bind("head.bias", "output.bias");
}

void bind_gguf_decoder(const DecoderConfig& config, GgufRows rows,
                       std::initializer_list<LayerTensor> norms, WeightSet& weights,
                       const std::string& who) {
  Binder binder(weights, who);
  bind_gguf_ends(binder);
  const bool pairs = rows == GgufRows::kPairs;
  const auto q_heads = static_cast<int32_t>(pairs ? config.num_heads : 0);
  const auto k_heads = static_cast<int32_t>(pairs ? config.num_kv_heads : 0);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("blk.{}.", i);
    for (const LayerTensor& norm : norms) {
      bind_gguf_linear(binder, ours + norm.ours, theirs + norm.theirs);
    }
    bind_gguf_linear(binder, ours + "attn.q", theirs + "attn_q", q_heads);
    bind_gguf_linear(binder, ours + "attn.k", theirs + "attn_k", k_heads);
    bind_gguf_linear(binder, ours + "attn.v", theirs + "attn_v");
    bind_gguf_linear(binder, ours + "attn.o", theirs + "attn_output");
    bind_gguf_linear(binder, ours + "mlp.gate", theirs + "ffn_gate");
    bind_gguf_linear(binder, ours + "mlp.up", theirs + "ffn_up");
    bind_gguf_linear(binder, ours + "mlp.down", theirs + "ffn_down");
  }
  binder.refuse_missing();
}

void bind_gguf_gpt_layer(Binder& binder, const DecoderConfig& config, int64_t layer) {
  constexpr const char* kParts[] = {"q", "k", "v"};
  WeightSet& weights = binder.weights();
  const std::string ours = fmt::format("layers.{}.", layer);
  const std::string theirs = fmt::format("blk.{}.", layer);
  const std::string qkv = theirs + "attn_qkv";
  const int64_t rows = config.hidden_size;
  for (int64_t part = 0; part < 3; ++part) {
    const std::string name = ours + "attn." + kParts[part];
    binder.want(weights.bind_rows(name + ".weight", qkv + ".weight", part * rows, rows),
                qkv + ".weight");
    weights.bind_rows(name + ".bias", qkv + ".bias", part * rows, rows);
  }
  bind_gguf_linear(binder, ours + "attn_norm", theirs + "attn_norm");
  bind_gguf_linear(binder, ours + "mlp_norm", theirs + "ffn_norm");
  bind_gguf_linear(binder, ours + "attn.o", theirs + "attn_output");
  bind_gguf_linear(binder, ours + "mlp.up", theirs + "ffn_up");
  bind_gguf_linear(binder, ours + "mlp.down", theirs + "ffn_down");
}

}  // namespace kvern::import
