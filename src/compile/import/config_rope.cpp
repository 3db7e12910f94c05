#include "compile/import/config_rope.h"

#include <fmt/format.h>

#include "compile/import/families/hf_rope.h"
#include "kvern/error.h"

namespace kvern::import {
namespace {

ir::RopeFrequencyAttrs attrs_of(const RopeConfig& rope) {
  ir::RopeFrequencyAttrs attrs;
  attrs.base = rope.base;
  attrs.rotary_dim = rope.rotary_dim;
  attrs.factor = rope.factor;
  if (rope.scaling == RopeScaling::kLinear) attrs.scaling = ir::FrequencyScaling::kLinear;
  if (rope.scaling != RopeScaling::kLlama3) return attrs;
  attrs.scaling = ir::FrequencyScaling::kLlama3;
  attrs.low = rope.low_freq_factor;
  attrs.high = rope.high_freq_factor;
  attrs.original = rope.original_context_length;
  return attrs;
}

std::string text_of(const RopeConfig& rope, const ConfigFacts& facts) {
  const std::string type = facts.rope_type.empty() ? "default" : facts.rope_type;
  return fmt::format("rope_theta {:g}, rope type {}", rope.base, type);
}

std::vector<RopeConfig> read(const hf::Config& config, const ConfigFacts& facts) {
  DecoderConfig decoder;
  decoder.max_context_length = facts.max_context_length;
  decoder.head_dim = facts.head_dim;
  std::vector<std::string> ignored;
  const auto parameters = config.find_object("rope_parameters");
  if (config.has("rope_local_base_freq") ||
      (parameters && parameters->find_object("full_attention"))) {
    read_hf_rope_per_type(config, 1e6, 1e4, decoder);
    return decoder.ropes;
  }
  HfRopeDefaults defaults{.partial_field = "partial_rotary_factor"};
  if (config.has("rotary_pct")) defaults.partial_field = "rotary_pct";
  if (config.has("rotary_emb_base")) defaults.base_field = "rotary_emb_base";
  read_hf_rope(config, defaults, decoder, ignored);
  return decoder.ropes;
}

bool says_something(const hf::Config& config) {
  for (const char* key : {"rope_theta", "rotary_emb_base", "rope_scaling", "rope_parameters",
                          "rope_local_base_freq"}) {
    if (config.has(key)) return true;
  }
  return false;
}

}  // namespace

std::vector<ConfigRope> config_ropes(const hf::Config& config, const ConfigFacts& facts) {
  std::vector<ConfigRope> out;
  try {
    if (facts.head_dim < 2 || !says_something(config)) return {};
    for (const RopeConfig& rope : read(config, facts)) {
      out.push_back({text_of(rope, facts), attrs_of(rope), rope.factors});
    }
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return {};  // no result depends on it
  }
  return out;
}

}  // namespace kvern::import
