#include "compile/import/families/hf_fields.h"

#include <fmt/format.h>

namespace kvern::import {
namespace {

// Ten times what the deepest models have; passes search the graph.
constexpr int64_t kMaxLayers = 1024;

int64_t size(const hf::Config& config, const char* field, int64_t otherwise,
             int64_t largest = hf::kMaxSize) {
  return otherwise == 0 ? config.size(field, largest) : config.size_or(field, otherwise, largest);
}

}  // namespace

Activation read_activation(const hf::Config& config, const char* field, const char* otherwise) {
  const std::string name = config.string_or(field, otherwise);
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGeluErf;
  // Three spellings of one formula.
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  config.unsupported_field(field, fmt::format("is '{}'; silu, gelu, gelu_new and "
                                              "gelu_pytorch_tanh are supported",
                                              name.substr(0, 40)));
}

float read_hf_softcap(const hf::Config& config, const char* field, double otherwise) {
  if (config.has(field)) return static_cast<float>(config.positive(field));
  return config.is_null(field) ? 0.0f : static_cast<float>(otherwise);
}

int64_t even_head_dim(const hf::Config& config, int64_t hidden_size, int64_t num_heads) {
  if (hidden_size % num_heads != 0) {
    hf::fail(config.file(), fmt::format("{} attention heads do not divide a hidden size of {}",
                                        num_heads, hidden_size));
  }
  return hidden_size / num_heads;
}

DecoderConfig read_hf_sizes(const hf::Config& config, const char* family,
                            const HfDefaults& defaults) {
  DecoderConfig out;
  out.family = family;
  out.num_layers = size(config, "num_hidden_layers", defaults.num_layers, kMaxLayers);
  out.hidden_size = size(config, "hidden_size", defaults.hidden_size);
  out.ffn_size = size(config, "intermediate_size", defaults.ffn_size);
  out.num_heads = size(config, "num_attention_heads", defaults.num_heads);
  const bool as_heads = defaults.num_kv_heads == 0 || config.is_null("num_key_value_heads");
  out.num_kv_heads =
      config.size_or("num_key_value_heads", as_heads ? out.num_heads : defaults.num_kv_heads);
  if (!config.has("head_dim") && defaults.head_dim == 0) {
    config.ignore({"head_dim"});  // null
    out.head_dim = even_head_dim(config, out.hidden_size, out.num_heads);
  } else {
    out.head_dim = config.size_or("head_dim", defaults.head_dim);
  }
  if (out.head_dim > kMaxHeadDim) {
    hf::fail(config.file(),
             fmt::format("has heads of {} elements; {} at most", out.head_dim, kMaxHeadDim));
  }
  if (out.num_heads % out.num_kv_heads != 0) {
    hf::fail(config.file(), fmt::format("{} attention heads cannot share {} KV heads evenly",
                                        out.num_heads, out.num_kv_heads));
  }
  out.vocabulary_size = size(config, "vocab_size", defaults.vocabulary_size);
  out.max_context_length = size(config, "max_position_embeddings", defaults.max_context_length);
  out.norm_eps = static_cast<float>(config.positive_or("rms_norm_eps", defaults.norm_eps));
  out.activation = read_activation(config, defaults.activation_field, defaults.activation);
  return out;
}

std::vector<bool> parse_layer_types(const hf::Config& config, const std::vector<std::string>& types,
                                    int64_t num_layers) {
  if (static_cast<int64_t>(types.size()) != num_layers) {
    config.fail_field("layer_types",
                      fmt::format("names {} layers, the model has {}", types.size(), num_layers));
  }
  std::vector<bool> out;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      config.unsupported_field("layer_types",
                               fmt::format("has '{}'; full_attention and sliding_attention are "
                                           "supported",
                                           type.substr(0, 40)));
    }
    out.push_back(type == "sliding_attention");
  }
  return out;
}

void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window) {
  config.layers.resize(static_cast<size_t>(config.num_layers));
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i]) config.layers[i].window = window;
  }
}

int64_t read_window(const hf::Config& config, int64_t otherwise) {
  return config.size_or("sliding_window", config.is_null("sliding_window") ? 0 : otherwise);
}

void read_upper_windows(const hf::Config& config, DecoderConfig& out) {
  const bool slides = config.bool_or("use_sliding_window", false);
  const int64_t window = read_window(config, 4096);
  const int64_t first = config.find_integer("max_window_layers").value_or(28);
  const auto sliding =
      read_sliding_layers(config, out.num_layers, [&](int64_t layer) { return layer >= first; });
  if (slides && window > 0) set_windows(out, sliding, window);
}

}  // namespace kvern::import
