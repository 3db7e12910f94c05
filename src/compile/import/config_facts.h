// What a config.json beside a model in tensor form says of it. The graph decides; these facts are
// for telling where it contradicts them: exporters freeze, drop or misplace what they stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/ir/ops.h"

namespace kvern::import {

struct ConfigRope {
  std::string text;  // "rope_theta 10000, rope type llama3"
  ir::RopeFrequencyAttrs attrs;
  std::vector<double> factors;  // divisors of frequencies; may be empty
};

struct ConfigFacts {
  std::string model_type;  // "gemma2"
  int64_t vocabulary_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  std::string norm_eps_field;  // "rms_norm_eps", …; empty: the file says none
  double norm_eps = 0.0;
  std::vector<ConfigRope> ropes;         // empty: none said, or none that Kvern knows
  int64_t max_context_length = 0;        // max_position_embeddings and its older names
  std::string rope_type;                 // "longrope"; empty: none named, or "default"
  int64_t original_context_length = 0;   // of a scaled rope
  int64_t sliding_window = 0;            // tokens; 0: none
  std::vector<std::string> layer_types;  // "sliding_attention", "full_attention"
  double attention_softcap = 0.0;        // 0: none
  double final_softcap = 0.0;
  std::vector<int64_t> stop_ids;
};

// Fields that are absent or of another type stay as above. `text`: config.json of transformers, or
// the genai_config.json of ONNX Runtime GenAI, whose "model" object says less. Throws
// Error(kInvalidModel) for what is no JSON object.
ConfigFacts read_config_facts(std::string_view text, const std::string& file);

}  // namespace kvern::import
