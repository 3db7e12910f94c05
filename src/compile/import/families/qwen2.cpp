// Qwen 2 (arXiv:2407.10671): Llama with biases of q, k and v.
#include "compile/import/families/family.h"
#include "compile/import/families/gguf_fields.h"
#include "compile/import/families/gguf_tensors.h"
#include "compile/import/families/hf_fields.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/families/hf_tensors.h"

namespace kvern::import {

void qwen2_from_hf(const hf::Config& config, WeightSet& weights, ImportedModel& model) {
  DecoderConfig c = read_hf_sizes(config, "qwen2", {.num_kv_heads = 32});
  read_hf_rope(config, {}, c, model.warnings);
  read_upper_windows(config, c);
  config.ignore({"use_mrope"});  // of the vision models that share these files
  const bool tied = config.bool_or("tie_word_embeddings", false);
  bind_hf_decoder(c, tied, {.qkv = true}, kPreNorms, weights, config.file());
  finish_decoder(c, weights, model);
}

void qwen2_from_gguf(const gguf::File& file, WeightSet& weights, ImportedModel& model) {
  const GgufFields fields(file);
  DecoderConfig c = read_gguf_sizes(fields, "qwen2");
  read_gguf_rope(fields, weights, c);
  fields.refuse_unread();
  bind_gguf_decoder(c, GgufRows::kHalves, kGgufPreNorms, weights, gguf_who(file));
  finish_decoder(c, weights, model);
}

}  // namespace kvern::import
