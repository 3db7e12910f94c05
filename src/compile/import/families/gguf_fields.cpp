#include "compile/import/families/gguf_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compile/import/families/hf_rope.h"

namespace kvern::import {
namespace {

using gguf::fail;
using gguf::shown;
using gguf::unsupported;

// Ten times what the deepest models have. Passes search the graph: 1,024 layers build in 10 s,
// 10,000 would take a quarter of an hour.
constexpr int64_t kMaxLayers = 1024;

int64_t vocabulary_size(const GgufFields& fields) {
  for (const ir::WeightSource& tensor : fields.file().tensors) {
    if (tensor.name == "token_embd.weight") {
      return fields.size_or("vocab_size", tensor.shape.front());
    }
  }
  return fields.size("vocab_size");
}

void check_heads(const GgufFields& fields, const DecoderConfig& c) {
  if (c.head_dim > kMaxHeadDim) {
    fail(fields.name(),
         fmt::format("has heads of {} elements; {} at most", c.head_dim, kMaxHeadDim));
  }
  if (!fields.has("attention.key_length") && c.hidden_size % c.num_heads != 0) {
    fail(fields.name(),
         fmt::format("{} heads do not divide embedding_length {}", c.num_heads, c.hidden_size));
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    fail(fields.name(),
         fmt::format("{} heads cannot share {} KV heads evenly", c.num_heads, c.num_kv_heads));
  }
  const int64_t value_length = fields.size_or("attention.value_length", c.head_dim);
  if (value_length != c.head_dim) {
    unsupported(fields.name(), fmt::format("keys of {} and values of {} elements a head: they must "
                                           "be equal",
                                           c.head_dim, value_length));
  }
}

// What each frequency is divided by, f32.
std::vector<double> read_factors(const gguf::File& file, const char* name, int64_t count) {
  for (const ir::WeightSource& tensor : file.tensors) {
    if (tensor.name != name) continue;
    if (tensor.type != ir::SourceType::kF32 || tensor.shape != Shape{count}) {
      fail(file.name,
           fmt::format("tensor '{}' is {} {}; F32 [{}] is wanted", name,
                       ir::source_type_info(tensor.type).name, to_string(tensor.shape), count));
    }
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), file.bytes.data() + tensor.offset, tensor.bytes);
    for (const float value : values) {
      if (std::isfinite(value) && value > 0) continue;
      fail(file.name, fmt::format("tensor '{}' has a factor of {}", name, value));
    }
    return {values.begin(), values.end()};
  }
  return {};
}

void read_scaling(const GgufFields& fields, const DecoderConfig& config, RopeConfig& rope) {
  const double old = fields.positive_or("rope.scale_linear", 1.0);
  const double factor = fields.positive_or("rope.scaling.factor", old);
  const std::string type = fields.string_or("rope.scaling.type", factor == 1.0 ? "none" : "linear");
  const int64_t original =
      fields.size_or("rope.scaling.original_context_length", config.max_context_length);
  fields.ignore({"rope.scaling.finetuned"});
  if (type == "none" && old == 1.0) return;
  if (type == "linear") {
    if (factor == 1.0) return;
    rope.scaling = RopeScaling::kLinear;
    rope.factor = factor;
  } else if (type == "yarn") {
    apply_yarn(rope, factor, static_cast<double>(original),
               fields.positive_or("rope.scaling.yarn_beta_fast", 32),
               fields.positive_or("rope.scaling.yarn_beta_slow", 1), /*truncate=*/true);
    const double attn_factor = fields.positive_or("rope.scaling.attn_factor", 1.0);
    rope.attention_factor = attn_factor * yarn_attention_factor(factor);
  } else {
    unsupported(fields.name(), fmt::format("rope scaling (type '{}', factor {}) is not supported; "
                                           "none, linear and yarn are",
                                           shown(type), factor));
  }
}

}  // namespace

GgufFields::GgufFields(const gguf::File& file)
    : file_(file), prefix_(std::string(file.metadata.string("general.architecture")) + ".") {}

std::string GgufFields::full(const std::string& key) const {
  std::string out = prefix_ + key;
  read_.insert(out);
  return out;
}

bool GgufFields::has(const std::string& key) const {
  return file_.metadata.has(prefix_ + key);
}

int64_t GgufFields::size(const std::string& key, int64_t largest) const {
  const std::string name = full(key);
  const uint64_t value = file_.metadata.count(name);
  if (value < 1 || value > static_cast<uint64_t>(largest)) {
    fail(file_.name,
         fmt::format("metadata '{}' is {}; 1 to {} are possible", name, value, largest));
  }
  return static_cast<int64_t>(value);
}

int64_t GgufFields::size_or(const std::string& key, int64_t otherwise) const {
  return has(key) ? size(key) : otherwise;
}

int64_t GgufFields::count_or(const std::string& key, int64_t otherwise) const {
  const std::string name = full(key);
  const auto value = file_.metadata.find_count(name);
  return value && *value == 0 ? 0 : size_or(key, otherwise);
}

double GgufFields::positive(const std::string& key) const {
  const std::string name = full(key);
  const double value = file_.metadata.real(name);
  if (!(value >= 1e-30 && value <= 1e30)) {
    fail(file_.name, fmt::format("metadata '{}' is {}; a positive number is wanted", name, value));
  }
  return value;
}

double GgufFields::positive_or(const std::string& key, double otherwise) const {
  return has(key) ? positive(key) : otherwise;
}

bool GgufFields::bool_or(const std::string& key, bool otherwise) const {
  return file_.metadata.find_bool(full(key)).value_or(otherwise);
}

std::string GgufFields::string_or(const std::string& key, const std::string& otherwise) const {
  const auto value = file_.metadata.find_string(full(key));
  return value ? std::string(*value) : otherwise;
}

void GgufFields::ignore(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) full(key);
}

void GgufFields::refuse_unread() const {
  for (const std::string& key : file_.metadata.keys()) {
    if (key.starts_with(prefix_) && !read_.contains(key)) {
      unsupported(file_.name, fmt::format("metadata '{}' is not understood and may change the "
                                          "model's results",
                                          shown(key)));
    }
  }
}

std::string gguf_who(const gguf::File& file) {
  return fmt::format("gguf: file '{}'", file.name);
}

void require_whole_heads(const GgufFields& fields, const DecoderConfig& config) {
  const int64_t rotary_dim = config.ropes.front().rotary_dim;
  if (rotary_dim == config.head_dim) return;
  unsupported(fields.name(), fmt::format("rotary positions over {} of {} elements a head: this "
                                         "architecture turns whole heads of even size",
                                         rotary_dim, config.head_dim));
}

DecoderConfig read_gguf_sizes(const GgufFields& fields, const char* family, NormKind norm) {
  const int64_t experts = fields.count_or("expert_count", 0);
  fields.ignore({"expert_used_count"});
  if (experts != 0) {
    unsupported(fields.name(),
                fmt::format("is a mixture of {} experts; dense models are supported", experts));
  }
  DecoderConfig c;
  c.family = family;
  c.num_layers = fields.size("block_count", kMaxLayers);
  c.hidden_size = fields.size("embedding_length");
  c.ffn_size = fields.size("feed_forward_length");
  c.num_heads = fields.size("attention.head_count");
  c.num_kv_heads = fields.size_or("attention.head_count_kv", c.num_heads);
  c.head_dim = fields.size_or("attention.key_length", c.hidden_size / c.num_heads);
  c.max_context_length = fields.size("context_length");
  c.vocabulary_size = vocabulary_size(fields);
  c.norm = norm;
  c.norm_eps =
      static_cast<float>(fields.positive(norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                                : "attention.layer_norm_epsilon"));
  check_heads(fields, c);
  return c;
}

namespace {

RopeConfig read_plain_rope(const GgufFields& fields, const DecoderConfig& config, double base) {
  RopeConfig rope;
  rope.base = fields.positive_or("rope.freq_base", base);
  rope.rotary_dim = fields.size_or("rope.dimension_count", config.head_dim);
  if (rope.rotary_dim > config.head_dim || rope.rotary_dim % 2 != 0) {
    unsupported(fields.name(), fmt::format("rotary positions over {} of {} elements a head: an "
                                           "even number of them is wanted",
                                           rope.rotary_dim, config.head_dim));
  }
  return rope;
}

}  // namespace

void read_gguf_rope(const GgufFields& fields, WeightSet& weights, DecoderConfig& config,
                    double base) {
  RopeConfig rope = read_plain_rope(fields, config, base);
  read_scaling(fields, config, rope);
  if (weights.discard("rope_freqs.weight")) {
    if (!rope.factors.empty()) {
      unsupported(fields.name(),
                  "YaRN beside the tensor 'rope_freqs.weight': each scales the frequencies");
    }
    rope.factors = read_factors(fields.file(), "rope_freqs.weight", rope.rotary_dim / 2);
  }
  config.ropes = {rope};
}

bool read_gguf_longrope(const GgufFields& fields, WeightSet& weights, DecoderConfig& config,
                        std::vector<std::string>& warnings) {
  if (!weights.discard("rope_factors_short.weight")) return false;
  weights.discard("rope_factors_long.weight");
  const std::string type = fields.string_or("rope.scaling.type", "longrope");
  if (type != "longrope") {
    unsupported(fields.name(),
                fmt::format("rope scaling of type '{}' beside LongRoPE's factors", shown(type)));
  }
  fields.ignore({"rope.scaling.finetuned"});
  RopeConfig rope = read_plain_rope(fields, config, 10000.0);
  rope.factors = read_factors(fields.file(), "rope_factors_short.weight", rope.rotary_dim / 2);
  rope.attention_factor = fields.positive_or("rope.scaling.attn_factor", 1.0);
  config.ropes = {rope};
  const int64_t original =
      fields.size_or("rope.scaling.original_context_length", config.max_context_length);
  cap_longrope(static_cast<double>(original), config, warnings);
  return true;
}

}  // namespace kvern::import
