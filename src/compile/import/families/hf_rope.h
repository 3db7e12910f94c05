// Rotary positions as config.json spells them: `rope_parameters` (transformers 5), flat or per
// layer type, and `rope_theta` with `rope_scaling` (transformers 4).
#pragma once

#include "compile/import/families/decoder.h"
#include "compile/import/hf/config.h"

namespace kvern::import {

// Tables of a rope are as long as half a head; no model comes near this.
inline constexpr int64_t kMaxHeadDim = 1 << 16;

struct HfRopeDefaults {
  double base = 10000.0;
  const char* base_field = "rope_theta";
  // The share of a head that turns; nullptr: the whole head, whatever its field says is refused.
  const char* partial_field = nullptr;
  double partial = 1.0;
  int64_t original_context_length = 0;  // 0: max_position_embeddings
};

// One rope for all layers, in decoder.ropes[0]. Ropes that change with the length of the sequence
// (dynamic, LongRoPE) are taken as they are below it: decoder.max_context_length is capped and
// `warnings` says so.
void read_hf_rope(const hf::Config& config, const HfRopeDefaults& defaults, DecoderConfig& decoder,
                  std::vector<std::string>& warnings);

// Gemma 3's: ropes[0] for the layers that see everything, ropes[1] for those with a window.
void read_hf_rope_per_type(const hf::Config& config, double full_base, double sliding_base,
                           DecoderConfig& decoder);

// YaRN (Peng et al. 2023, arXiv:2309.00071): per-frequency divisors into rope.factors.
void apply_yarn(RopeConfig& rope, double factor, double original_context_length, double beta_fast,
                double beta_slow, bool truncate);
// What YaRN multiplies cos and sin by for a factor.
double yarn_attention_factor(double factor, double mscale = 1.0);

// Beyond `original` tokens LongRoPE divides by other factors, for the whole sequence at once: the
// context length is capped there, and `warnings` says so.
void cap_longrope(double original, DecoderConfig& decoder, std::vector<std::string>& warnings);

}  // namespace kvern::import
