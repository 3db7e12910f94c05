// Mistral: Llama with a sliding window in every layer (Jiang et al. 2023, arXiv:2310.06825). GGUF
// files call it llama.
#include "compile/import/families/family.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {

void mistral_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "mistral", {.num_kv_heads = 8});
  read_hf_rope(config, {}, c, model.warnings);
  const int64_t window = read_window(config, 4096);
  const auto sliding = read_sliding_layers(config, c.num_layers, [](int64_t) { return true; });
  if (window > 0) set_windows(c, sliding, window);
  const bool tied = config.bool_or("tie_word_embeddings", false);
  bind_hf_decoder(c, tied, {}, kPreNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
