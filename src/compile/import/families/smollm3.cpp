// SmolLM3: Llama whose every fourth layer does not turn positions (NoPE, arXiv:2501.18795).
#include <fmt/format.h>

#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {
namespace {

constexpr int64_t kNoRopeInterval = 4;

// no_rope_layers holds 1 for the layers that turn, whatever its name says.
void read_no_rope(const hf::Config& config, DecoderConfig& c) {
  const int64_t interval = config.size_or("no_rope_layer_interval", kNoRopeInterval);
  c.layers.resize(static_cast<size_t>(c.num_layers));
  const auto turns = config.find_integers("no_rope_layers");
  if (turns && static_cast<int64_t>(turns->size()) != c.num_layers) {
    config.fail_field("no_rope_layers", fmt::format("names {} layers, the model has {}",
                                                    turns->size(), c.num_layers));
  }
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const bool turned = turns ? (*turns)[i] != 0 : (static_cast<int64_t>(i) + 1) % interval != 0;
    c.layers[i].rope = turned ? 0 : -1;
  }
}

void read_windows(const hf::Config& config, DecoderConfig& c) {
  const bool slides = config.bool_or("use_sliding_window", false);
  const int64_t window = read_window(config, 0);
  const auto sliding = read_sliding_layers(
      config, c.num_layers, [&](int64_t i) { return c.layers[static_cast<size_t>(i)].rope < 0; });
  if (slides && window > 0) set_windows(c, sliding, window);
}

}  // namespace

void smollm3_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "smollm3", {.num_kv_heads = 4});
  read_no_rope(config, c);
  read_windows(config, c);
  config.ignore({"max_window_layers"});
  read_hf_rope(config, {.base = 2e6}, c, model.warnings);
  const bool tied = config.bool_or("tie_word_embeddings", true);
  const bool bias = config.bool_or("attention_bias", false);
  const HfBiases biases{.qkv = bias, .output = bias, .mlp = config.bool_or("mlp_bias", false)};
  bind_hf_decoder(c, tied, biases, kPreNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

void smollm3_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "smollm3");
  c.layers.resize(static_cast<size_t>(c.num_layers));
  for (size_t i = kNoRopeInterval - 1; i < c.layers.size(); i += kNoRopeInterval) {
    c.layers[i].rope = -1;
  }
  read_gguf_rope(fields, weights, c);
  require_whole_heads(fields, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kPairs, kGgufPreNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
