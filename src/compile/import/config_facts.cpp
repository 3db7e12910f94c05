#include "compile/import/config_facts.h"

#include <optional>

#include "compile/import/config_rope.h"
#include "compile/import/hf/config.h"
#include "kvern/error.h"

namespace kvern::import {
namespace {

using hf::Config;

// The first of `keys` that has a value of the wanted type. Another type is as good as none: no
// result depends on these.
template <class Find>
auto first(std::initializer_list<const char*> keys, Find find) -> decltype(find("")) {
  for (const char* key : keys) {
    try {
      if (auto value = find(key)) return value;
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

int64_t integer(const Config& config, std::initializer_list<const char*> keys) {
  const auto value = first(keys, [&](const char* key) { return config.find_integer(key); });
  return value && *value > 0 ? *value : 0;
}

double real(const Config& config, const char* key) {
  const auto value = first({key}, [&](const char* each) { return config.find_real(each); });
  return value.value_or(0.0);
}

std::string string(const Config& config, std::initializer_list<const char*> keys) {
  return first(keys, [&](const char* key) { return config.find_string(key); }).value_or("");
}

std::optional<Config> object(const Config& config, std::initializer_list<const char*> keys) {
  return first(keys, [&](const char* key) { return config.find_object(key); });
}

void read_rope(const Config& config, ConfigFacts& facts) {
  const auto rope = object(config, {"rope_scaling", "rope_parameters"});
  facts.original_context_length = integer(config, {"original_max_position_embeddings"});
  if (!rope) return;
  facts.rope_type = string(*rope, {"rope_type", "type"});
  if (facts.rope_type == "default") facts.rope_type.clear();
  const int64_t original = integer(*rope, {"original_max_position_embeddings"});
  if (original > 0) facts.original_context_length = original;
}

void read_norm_eps(const Config& config, ConfigFacts& facts) {
  for (const char* field : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"}) {
    facts.norm_eps = real(config, field);
    if (facts.norm_eps <= 0) continue;
    facts.norm_eps_field = field;
    return;
  }
}

}  // namespace

ConfigFacts read_config_facts(std::string_view text, const std::string& file) {
  const Config whole = Config::parse(text, file);
  const Config config = object(whole, {"text_config", "model"}).value_or(whole);
  ConfigFacts facts;
  facts.model_type = string(config, {"model_type", "type"});
  facts.vocabulary_size = integer(config, {"vocab_size"});
  facts.hidden_size = integer(config, {"hidden_size", "n_embd", "d_model"});
  facts.num_layers = integer(config, {"num_hidden_layers", "n_layer", "num_layers"});
  facts.num_heads = integer(config, {"num_attention_heads", "n_head"});
  facts.num_kv_heads = integer(config, {"num_key_value_heads"});
  facts.max_context_length =
      integer(config, {"max_position_embeddings", "n_positions", "n_ctx", "seq_length",
                       "max_sequence_length", "max_seq_len", "context_length"});
  read_rope(config, facts);
  facts.head_dim = integer(config, {"head_dim"});
  if (facts.head_dim == 0 && facts.num_heads > 0) {
    facts.head_dim = facts.hidden_size / facts.num_heads;
  }
  facts.ropes = config_ropes(config, facts);
  read_norm_eps(config, facts);
  const auto used =
      first({"use_sliding_window"}, [&](const char* key) { return config.find_bool(key); });
  if (used.value_or(true)) facts.sliding_window = integer(config, {"sliding_window"});
  facts.layer_types = first({"layer_types"}, [&](const char* key) {
                        return config.find_strings(key);
                      }).value_or(std::vector<std::string>{});
  facts.attention_softcap = real(config, "attn_logit_softcapping");
  facts.final_softcap = real(config, "final_logit_softcapping");
  facts.stop_ids = first({"eos_token_id"}, [&](const char* key) {
                     return config.find_integers(key);
                   }).value_or(std::vector<int64_t>{});
  return facts;
}

}  // namespace kvern::import
