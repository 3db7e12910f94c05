// config.json of decoders: the fields that most families share, under their usual names.
#pragma once

#include "compile/import/families/decoder.h"
#include "compile/import/families/hf_rope.h"
#include "compile/import/hf/config.h"

namespace kvern::import {

// What absent fields mean in this family; 0: the file must say it.
struct HfDefaults {
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t ffn_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // 0: as many as heads, which null always means
  int64_t head_dim = 0;      // 0: hidden_size / heads
  int64_t vocabulary_size = 0;
  int64_t max_context_length = 0;
  double norm_eps = 1e-6;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
};

// Sizes, norm epsilon and activation; ropes and layers stay empty.
DecoderConfig read_hf_sizes(const hf::Config& config, const char* family,
                            const HfDefaults& defaults);

// "silu", "gelu", "gelu_new", …; others throw Error(kUnsupported) naming the field.
Activation read_activation(const hf::Config& config, const char* field, const char* otherwise);

// A cap above zero; 0 where the field is null, `otherwise` where it is absent.
float read_hf_softcap(const hf::Config& config, const char* field, double otherwise);

// hidden_size / heads, which must divide. Throws Error(kInvalidModel).
int64_t even_head_dim(const hf::Config& config, int64_t hidden_size, int64_t num_heads);

// The type of each layer: `layer_types` where the file has it, else what `otherwise(layer)` says.
// True: it sees a window. Types other than sliding_attention and full_attention are refused.
template <class Otherwise>
std::vector<bool> read_sliding_layers(const hf::Config& config, int64_t num_layers,
                                      Otherwise otherwise);
std::vector<bool> parse_layer_types(const hf::Config& config, const std::vector<std::string>& types,
                                    int64_t num_layers);

// `window` for the layers that slide; config.layers is made where it is empty.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

// sliding_window in tokens; 0 where the field is null, `otherwise` where it is absent.
int64_t read_window(const hf::Config& config, int64_t otherwise);

// Qwen's: with `use_sliding_window`, layers from `max_window_layers` on see a window.
void read_upper_windows(const hf::Config& config, DecoderConfig& out);

template <class Otherwise>
std::vector<bool> read_sliding_layers(const hf::Config& config, int64_t num_layers,
                                      Otherwise otherwise) {
  if (const auto types = config.find_strings("layer_types")) {
    return parse_layer_types(config, *types, num_layers);
  }
  std::vector<bool> out;
  for (int64_t i = 0; i < num_layers; ++i) out.push_back(otherwise(i));
  return out;
}

}  // namespace kvern::import
