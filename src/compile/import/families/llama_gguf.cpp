// Llama as GGUF files spell it: metadata llama.*, tensors token_embd, blk.N.*, output_norm, output.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compile/import/families/family.h"
#include "compile/import/families/llama.h"
#include "compile/import/gguf/reader.h"

namespace kvern::import {
namespace {

using gguf::fail;
using gguf::File;
using gguf::unsupported;

// Sizes above this are no Llama; below it, no product of two overflows.
constexpr int64_t kMaxSize = 1 << 26;
// Ten times what the deepest models have. Passes search the graph: 1,024 layers build in 10 s,
// 10,000 would take a quarter of an hour.
constexpr int64_t kMaxLayers = 1024;

// Every llama.* key that is read or that is checked to change nothing. Any other one may change
// the result, so it is refused.
constexpr std::array kKnownKeys = {
    "llama.block_count",
    "llama.context_length",
    "llama.embedding_length",
    "llama.feed_forward_length",
    "llama.attention.head_count",
    "llama.attention.head_count_kv",
    "llama.attention.layer_norm_rms_epsilon",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.rope.freq_base",
    "llama.rope.dimension_count",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.rope.scaling.finetuned",
    "llama.rope.scale_linear",
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.vocab_size",
};

struct TensorName {
  const char* ours;                          // below layers.N.
  const char* theirs;                        // below blk.N.
  enum class Rows { kPlain, kQ, kKv } rows;  // kQ, kKv: rotary pairs lie side by side
};
using Rows = TensorName::Rows;
constexpr TensorName kLayerTensors[] = {
    {"attn_norm", "attn_norm", Rows::kPlain}, {"attn.q", "attn_q", Rows::kQ},
    {"attn.k", "attn_k", Rows::kKv},          {"attn.v", "attn_v", Rows::kPlain},
    {"attn.o", "attn_output", Rows::kPlain},  {"mlp_norm", "ffn_norm", Rows::kPlain},
    {"mlp.gate", "ffn_gate", Rows::kPlain},   {"mlp.up", "ffn_up", Rows::kPlain},
    {"mlp.down", "ffn_down", Rows::kPlain},
};

int64_t checked_size(const File& file, const std::string& key, uint64_t value,
                     int64_t largest = kMaxSize) {
  if (value < 1 || value > static_cast<uint64_t>(largest)) {
    fail(file.name, fmt::format("metadata '{}' is {}; 1 to {} are possible", key, value, largest));
  }
  return static_cast<int64_t>(value);
}

int64_t size(const File& file, const char* key, int64_t largest = kMaxSize) {
  const std::string full = std::string("llama.") + key;
  return checked_size(file, full, file.metadata.count(full), largest);
}

int64_t size_or(const File& file, const char* key, int64_t otherwise) {
  const std::string full = std::string("llama.") + key;
  const auto value = file.metadata.find_count(full);
  return value ? checked_size(file, full, *value) : otherwise;
}

double positive(const File& file, const char* key, double value) {
  if (!std::isfinite(value) || value <= 0) {
    fail(file.name,
         fmt::format("metadata 'llama.{}' is {}; a positive number is wanted", key, value));
  }
  return value;
}

void refuse_what_changes_the_result(const File& file) {
  const gguf::Metadata& data = file.metadata;
  for (const std::string& key : data.keys()) {
    if (key.starts_with("llama.") && std::ranges::find(kKnownKeys, key) == kKnownKeys.end()) {
      unsupported(file.name, fmt::format("metadata '{}' is not understood and may change the "
                                         "model's results",
                                         gguf::shown(key)));
    }
  }
  const auto scaling = data.find_string("llama.rope.scaling.type");
  const double factor = data.find_real("llama.rope.scaling.factor").value_or(1.0);
  const double linear = data.find_real("llama.rope.scale_linear").value_or(1.0);
  if ((scaling && *scaling != "none") || (!scaling && factor != 1.0) || linear != 1.0) {
    unsupported(file.name, fmt::format("rope scaling (type '{}', factor {}) is not supported yet",
                                       scaling ? gguf::shown(*scaling) : "linear",
                                       linear != 1.0 ? linear : factor));
  }
  const uint64_t experts = data.find_count("llama.expert_count").value_or(0);
  if (experts != 0) {
    unsupported(file.name,
                fmt::format("is a mixture of {} experts; dense models are supported", experts));
  }
  for (const ir::WeightSource& tensor : file.tensors) {
    if (tensor.name.starts_with("rope_freqs")) {
      unsupported(file.name, fmt::format("tensor '{}' scales the rotary frequencies (Llama 3), "
                                         "which is not supported yet",
                                         gguf::shown(tensor.name)));
    }
  }
}

int64_t vocabulary_size(const File& file) {
  for (const ir::WeightSource& tensor : file.tensors) {
    if (tensor.name == "token_embd.weight") return tensor.shape.front();
  }
  return size(file, "vocab_size");
}

LlamaConfig read_config(const File& file) {
  LlamaConfig c;
  c.num_layers = size(file, "block_count", kMaxLayers);
  c.hidden_size = size(file, "embedding_length");
  c.ffn_size = size(file, "feed_forward_length");
  c.num_heads = size(file, "attention.head_count");
  c.num_kv_heads = size_or(file, "attention.head_count_kv", c.num_heads);
  c.head_dim = size_or(file, "attention.key_length", c.hidden_size / c.num_heads);
  c.rotary_dim = size_or(file, "rope.dimension_count", c.head_dim);
  c.rope_base = positive(file, "rope.freq_base",
                         file.metadata.find_real("llama.rope.freq_base").value_or(10000.0));
  c.norm_eps =
      static_cast<float>(positive(file, "attention.layer_norm_rms_epsilon",
                                  file.metadata.real("llama.attention.layer_norm_rms_epsilon")));
  c.max_context_length = size(file, "context_length");
  c.vocabulary_size = size_or(file, "vocab_size", vocabulary_size(file));
  return c;
}

void check_heads(const File& file, const LlamaConfig& c) {
  const bool length_given = file.metadata.has("llama.attention.key_length");
  if (!length_given && c.hidden_size % c.num_heads != 0) {
    fail(file.name,
         fmt::format("{} heads do not divide embedding_length {}", c.num_heads, c.hidden_size));
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    fail(file.name,
         fmt::format("{} heads cannot share {} KV heads evenly", c.num_heads, c.num_kv_heads));
  }
  const int64_t value_length = size_or(file, "attention.value_length", c.head_dim);
  if (value_length != c.head_dim) {
    unsupported(file.name, fmt::format("keys of {} and values of {} elements a head: for Llama "
                                       "they must be equal",
                                       c.head_dim, value_length));
  }
  if (c.rotary_dim != c.head_dim || c.head_dim % 2 != 0) {
    unsupported(file.name, fmt::format("rotary positions over {} of {} elements a head: Llama "
                                       "turns whole heads of even size",
                                       c.rotary_dim, c.head_dim));
  }
}

void bind_weights(const File& file, const LlamaConfig& c, WeightSet& weights) {
  std::vector<std::string> missing;
  const auto want = [&](const std::string& ours, const std::string& theirs, int64_t heads) {
    if (!weights.bind(ours, theirs, static_cast<int32_t>(heads))) missing.push_back(theirs);
  };
  want("embed.weight", "token_embd.weight", 0);
  want("norm.weight", "output_norm.weight", 0);
  weights.bind("head.weight", "output.weight");
  // A damaged block_count must not make a list longer than the file's own table.
  const auto possible = static_cast<int64_t>(file.tensors.size());
  for (int64_t i = 0; i < std::min(c.num_layers, possible + 1); ++i) {
    for (const TensorName& tensor : kLayerTensors) {
      const std::string ours = fmt::format("layers.{}.{}", i, tensor.ours);
      const std::string theirs = fmt::format("blk.{}.{}", i, tensor.theirs);
      const int64_t heads = tensor.rows == Rows::kQ    ? c.num_heads
                            : tensor.rows == Rows::kKv ? c.num_kv_heads
                                                       : 0;
      want(ours + ".weight", theirs + ".weight", heads);
      weights.bind(ours + ".bias", theirs + ".bias", static_cast<int32_t>(heads));
    }
  }
  if (missing.empty()) return;
  const size_t named = std::min<size_t>(missing.size(), 5);
  fail(file.name,
       fmt::format("{} tensors are missing: {}{}; convert the model again", missing.size(),
                   fmt::join(missing.begin(), missing.begin() + static_cast<long>(named), ", "),
                   named < missing.size() ? ", ..." : ""));
}

}  // namespace

void llama_from_gguf(const File& file, WeightSet& weights, ImportedModel& model) {
  refuse_what_changes_the_result(file);
  const LlamaConfig config = read_config(file);
  check_heads(file, config);
  bind_weights(file, config, weights);
  build_llama(config, weights, model.graph);
  model.slots = llama_slots(config);
  model.vocabulary_size = config.vocabulary_size;
  model.num_layers = config.num_layers;
  model.hidden_size = config.hidden_size;
  model.max_context_length = config.max_context_length;
}

}  // namespace kvern::import
