// GPT-2 (Radford et al. 2019): layer norms, learned positions, biases everywhere, a plain GELU MLP.
// Hugging Face files keep linears as [in, out]; GGUF files as usual.
#include <fmt/format.h>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

void set_fixed_parts(DecoderConfig& c) {
  c.family = "gpt2";
  c.norm = NormKind::kLayer;
  c.gated_mlp = false;
  c.learned_positions = c.max_context_length;
}

DecoderConfig read_sizes(const hf::Config& config) {
  DecoderConfig c;
  c.num_layers = config.size("n_layer", 1024);
  c.hidden_size = config.size("n_embd");
  c.num_heads = c.num_kv_heads = config.size("n_head");
  c.head_dim = even_head_dim(config, c.hidden_size, c.num_heads);
  c.ffn_size = config.size_or("n_inner", 4 * c.hidden_size);
  c.vocabulary_size = config.size("vocab_size");
  c.max_context_length = config.size("n_positions");
  config.ignore({"n_ctx"});  // n_positions once more
  c.norm_eps = static_cast<float>(config.positive_or("layer_norm_epsilon", 1e-5));
  c.activation = read_activation(config, "activation_function", "gelu_new");
  set_fixed_parts(c);
  return c;
}

// Rows of the transposed tensor: q, k and v of c_attn.
void bind_part(Binder& binder, const std::string& ours, const std::string& theirs,
               int64_t first_row, int64_t rows) {
  WeightSet& weights = binder.weights();
  binder.want(weights.bind_transposed_rows(ours + ".weight", theirs + ".weight", first_row, rows),
              theirs + ".weight");
  binder.want(weights.bind_rows(ours + ".bias", theirs + ".bias", first_row, rows),
              theirs + ".bias");
}

void bind_conv(Binder& binder, const std::string& ours, const std::string& theirs) {
  binder.want(binder.weights().bind_transposed(ours + ".weight", theirs + ".weight"),
              theirs + ".weight");
  binder.plain(ours + ".bias", theirs + ".bias");
}

void bind_norm(Binder& binder, const std::string& ours, const std::string& theirs) {
  binder.plain(ours + ".weight", theirs + ".weight");
  binder.plain(ours + ".bias", theirs + ".bias");
}

// "q", "k", "v" of a fused tensor whose rows are theirs in this order.
constexpr const char* kParts[] = {"q", "k", "v"};

}  // namespace

void gpt2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  const DecoderConfig c = read_sizes(config);
  config.ignore({"summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "reorder_and_upcast_attn"});
  config.must_be("scale_attn_weights", true, "scores would not be scaled");
  config.must_be("scale_attn_by_inverse_layer_idx", false, "scores would depend on the layer");
  config.must_be("add_cross_attention", false, "Kvern builds decoders alone");
  Binder binder(weights, config.file());
  const std::string prefix = find_prefix(weights, {"transformer.", ""}, "wte.weight");
  binder.plain("embed.weight", prefix + "wte.weight");
  binder.plain("positions.weight", prefix + "wpe.weight");
  bind_norm(binder, "norm", prefix + "ln_f");
  bind_hf_head(binder, config.bool_or("tie_word_embeddings", true));
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i);
    const std::string theirs = fmt::format("{}h.{}.", prefix, i);
    bind_norm(binder, ours + "attn_norm", theirs + "ln_1");
    bind_norm(binder, ours + "mlp_norm", theirs + "ln_2");
    for (int64_t part = 0; part < 3; ++part) {
      bind_part(binder, ours + "attn." + kParts[part], theirs + "attn.c_attn", part * c.hidden_size,
                c.hidden_size);
    }
    bind_conv(binder, ours + "attn.o", theirs + "attn.c_proj");
    bind_conv(binder, ours + "mlp.up", theirs + "mlp.c_fc");
    bind_conv(binder, ours + "mlp.down", theirs + "mlp.c_proj");
  }
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

void gpt2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "gpt2", NormKind::kLayer);
  c.activation = Activation::kGeluTanh;
  set_fixed_parts(c);
  fields.refuse_unread();
  Binder binder(weights, gguf_who(file));
  bind_gguf_ends(binder);
  binder.plain("positions.weight", "position_embd.weight");
  for (int64_t i = 0; i < c.num_layers; ++i) {
    bind_gguf_gpt_layer(binder, c, i);
  }
  binder.refuse_missing();
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
