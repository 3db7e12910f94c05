// Phi-3 and Phi-4-mini (arXiv:2404.14219): Llama with q, k and v in one tensor, gate and up in
// another, and perhaps a window and a part of each head that does not turn.
#include <fmt/format.h>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

// q, k, v and gate, up are rows of the fused tensors `qkv` and `gate_up`, in this order.
void bind_fused(Binder& binder, const DecoderConfig& c, const std::string& ours,
                const std::string& qkv, const std::string& gate_up) {
  WeightSet& weights = binder.weights();
  const int64_t q_rows = c.num_heads * c.head_dim;
  const int64_t kv_rows = c.num_kv_heads * c.head_dim;
  binder.want(weights.bind_rows(ours + "attn.q.weight", qkv, 0, q_rows), qkv);
  weights.bind_rows(ours + "attn.k.weight", qkv, q_rows, kv_rows);
  weights.bind_rows(ours + "attn.v.weight", qkv, q_rows + kv_rows, kv_rows);
  binder.want(weights.bind_rows(ours + "mlp.gate.weight", gate_up, 0, c.ffn_size), gate_up);
  weights.bind_rows(ours + "mlp.up.weight", gate_up, c.ffn_size, c.ffn_size);
}

// A fused tensor with more rows than its parts would lose them silently.
void check_rows(const ir::Graph& graph, const std::string& tensor, int64_t rows,
                const std::string& who) {
  for (const ir::WeightSource& source : graph.sources) {
    if (source.name != tensor || source.shape.front() == rows) continue;
    throw Error(Code::kInvalidModel,
                fmt::format("{}: tensor '{}' has {} rows, but the model's configuration asks for "
                            "{}; the two do not belong together",
                            who, tensor, source.shape.front(), rows));
  }
}

void check_fused(const ir::Graph& graph, const DecoderConfig& c, const std::string& qkv,
                 const std::string& gate_up, const std::string& who) {
  check_rows(graph, qkv, (c.num_heads + 2 * c.num_kv_heads) * c.head_dim, who);
  check_rows(graph, gate_up, 2 * c.ffn_size, who);
}

}  // namespace

void phi3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "phi3", {.norm_eps = 1e-5});
  read_hf_rope(config, {.partial_field = "partial_rotary_factor", .original_context_length = 4096},
               c, model.warnings);
  config.ignore({"original_max_position_embeddings"});  // read where the rope scales
  for (const char* bias : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    config.must_be(bias, false, "Phi-3 has no biases");
  }
  config.ignore({"full_attn_mod", "interpolate_factor"});  // of the authors' own code
  if (const int64_t window = read_window(config, 0)) {
    set_windows(c, std::vector<bool>(static_cast<size_t>(c.num_layers), true), window);
  }
  Binder binder(weights, config.file());
  binder.plain("embed.weight", "model.embed_tokens.weight");
  binder.plain("norm.weight", "model.norm.weight");
  bind_hf_head(binder, config.bool_or("tie_word_embeddings", false));
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("model.layers.{}.", i);
    const std::string qkv = theirs + "self_attn.qkv_proj.weight";
    const std::string gate_up = theirs + "mlp.gate_up_proj.weight";
    bind_fused(binder, c, ours, qkv, gate_up);
    check_fused(model.graph, c, qkv, gate_up, config.file());
    binder.plain(ours + "attn.o.weight", theirs + "self_attn.o_proj.weight");
    binder.plain(ours + "mlp.down.weight", theirs + "mlp.down_proj.weight");
    binder.plain(ours + "attn_norm.weight", theirs + "input_layernorm.weight");
    binder.plain(ours + "mlp_norm.weight", theirs + "post_attention_layernorm.weight");
  }
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

void phi3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "phi3");
  // 0 in files of models without one.
  if (const int64_t window = fields.count_or("attention.sliding_window", 0)) {
    c.layers.assign(static_cast<size_t>(c.num_layers), {.window = window});
  }
  if (!read_gguf_longrope(fields, weights, c, model.warnings)) read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  Binder binder(weights, gguf_who(file));
  bind_gguf_ends(binder);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("blk.{}.", i);
    bind_fused(binder, c, ours, theirs + "attn_qkv.weight", theirs + "ffn_up.weight");
    check_fused(model.graph, c, theirs + "attn_qkv.weight", theirs + "ffn_up.weight",
                gguf_who(file));
    binder.plain(ours + "attn.o.weight", theirs + "attn_output.weight");
    binder.plain(ours + "mlp.down.weight", theirs + "ffn_down.weight");
    binder.plain(ours + "attn_norm.weight", theirs + "attn_norm.weight");
    binder.plain(ours + "mlp_norm.weight", theirs + "ffn_norm.weight");
  }
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
