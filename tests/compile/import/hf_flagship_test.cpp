// The fields that the config.json of well-known models hold: none of them may be refused as "not
// understood". Sizes are small; nothing here is a public file.
#include <gtest/gtest.h>

#include "kvern/error.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::import::hf {
namespace {

struct Flagship {
  const char* name;
  const char* config;
};

constexpr Flagship kFlagships[] = {
    {"SmolLM2", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
      "hidden_size": 8, "initializer_range": 0.04, "intermediate_size": 16, "is_llama_config": true,
      "max_position_embeddings": 64, "mlp_bias": false, "model_type": "llama",
      "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
      "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
      "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
      "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 6})"},
    {"Llama 3.2", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": [2, 3], "head_dim": 4,
      "hidden_act": "silu", "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 16,
      "max_position_embeddings": 128, "mlp_bias": false, "model_type": "llama",
      "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
      "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
      "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
      "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": true,
      "vocab_size": 6})"},
    {"Mistral 7B v0.3", R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 8,
      "initializer_range": 0.02, "intermediate_size": 16, "max_position_embeddings": 64,
      "model_type": "mistral", "num_attention_heads": 2, "num_hidden_layers": 1,
      "num_key_value_heads": 1, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
      "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "transformers_version": "4.42.0", "use_cache": true, "vocab_size": 6})"},
    {"Qwen2.5", R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 8,
      "initializer_range": 0.02, "intermediate_size": 16, "max_position_embeddings": 64,
      "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 2,
      "num_hidden_layers": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
      "rope_theta": 1000000.0, "sliding_window": 64, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
      "use_mrope": false, "use_sliding_window": false, "vocab_size": 6})"},
    {"Qwen3", R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "head_dim": 4,
      "hidden_act": "silu", "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 16,
      "max_position_embeddings": 64, "max_window_layers": 28, "model_type": "qwen3",
      "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
      "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
      "use_cache": true, "use_sliding_window": false, "vocab_size": 6})"},
    {"Gemma 2", R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "bos_token_id": 2,
      "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0,
      "head_dim": 4, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
      "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 16,
      "max_position_embeddings": 64, "model_type": "gemma2", "num_attention_heads": 2,
      "num_hidden_layers": 1, "num_key_value_heads": 1, "pad_token_id": 0,
      "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
      "sliding_window": 32, "sliding_window_size": 32, "torch_dtype": "float32",
      "transformers_version": "4.42.4", "use_cache": true, "vocab_size": 6})"},
    {"Gemma 3 text", R"({"_sliding_window_pattern": 6, "architectures": ["Gemma3ForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null,
      "bos_token_id": 2, "dtype": "bfloat16", "eos_token_id": 1, "final_logit_softcapping": null,
      "head_dim": 4, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 8,
      "initializer_range": 0.02, "intermediate_size": 16, "layer_types": ["sliding_attention"],
      "max_position_embeddings": 64, "model_type": "gemma3_text", "num_attention_heads": 2,
      "num_hidden_layers": 1, "num_key_value_heads": 1, "pad_token_id": 0,
      "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
      "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": 32,
      "transformers_version": "4.56.1", "use_bidirectional_attention": false, "use_cache": true,
      "vocab_size": 6})"},
    {"Gemma 3", R"({"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 4,
      "eoi_token_index": 5, "eos_token_id": [1, 3], "image_token_index": 3,
      "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
      "text_config": {"head_dim": 4, "hidden_size": 8, "intermediate_size": 16,
      "model_type": "gemma3_text", "num_attention_heads": 2, "num_hidden_layers": 1,
      "num_key_value_heads": 1, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 32, "vocab_size": 6, "max_position_embeddings": 64},
      "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
      "vision_config": {"hidden_size": 4, "image_size": 896, "model_type": "siglip_vision_model",
      "vision_use_head": false}})"},
    {"Phi-3.5-mini", R"({"_name_or_path": "x", "architectures": ["Phi3ForCausalLM"],
      "attention_bias": false, "attention_dropout": 0.0, "auto_map": {"AutoConfig": "a.B"},
      "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2, "hidden_act": "silu",
      "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 16,
      "max_position_embeddings": 128, "model_type": "phi3", "num_attention_heads": 2,
      "num_hidden_layers": 1, "num_key_value_heads": 1, "original_max_position_embeddings": 64,
      "pad_token_id": 3, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling":
      {"long_factor": [2, 3], "short_factor": [1, 1.5], "type": "longrope"}, "rope_theta": 10000.0,
      "sliding_window": 64, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "transformers_version": "4.43.3", "use_cache": true, "vocab_size": 6})"},
    {"Phi-4-mini", R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 2,
      "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 16, "initializer_range": 0.02,
      "intermediate_size": 16, "interpolate_factor": 1, "lm_head_bias": false,
      "max_position_embeddings": 128, "mlp_bias": false, "model_type": "phi3",
      "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
      "original_max_position_embeddings": 64, "pad_token_id": 3, "partial_rotary_factor": 0.75,
      "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor": [2, 3, 4],
      "short_factor": [1, 1, 1], "type": "longrope"}, "rope_theta": 10000.0, "sliding_window": 64,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0",
      "use_cache": true, "vocab_size": 6})"},
    {"OLMo 2", R"({"architectures": ["Olmo2ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 8,
      "initializer_range": 0.02, "intermediate_size": 16, "max_position_embeddings": 64,
      "model_type": "olmo2", "num_attention_heads": 2, "num_hidden_layers": 1,
      "num_key_value_heads": 2, "pad_token_id": 1, "rms_norm_eps": 1e-06, "rope_scaling": null,
      "rope_theta": 500000, "tie_word_embeddings": false, "torch_dtype": "float32",
      "transformers_version": "4.47.0", "use_cache": false, "vocab_size": 6})"},
    {"Granite 3", R"({"architectures": ["GraniteForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.1, "attention_multiplier": 0.015625, "bos_token_id": 0,
      "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 8,
      "initializer_range": 0.02, "intermediate_size": 16, "logits_scaling": 8.0,
      "max_position_embeddings": 64, "mlp_bias": false, "model_type": "granite",
      "num_attention_heads": 2, "num_hidden_layers": 1, "num_key_value_heads": 1,
      "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null,
      "rope_theta": 5000000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "transformers_version": "4.46.0", "use_cache": true, "vocab_size": 6})"},
    {"SmolLM3", R"({"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": 2, "hidden_act": "silu",
      "hidden_size": 8, "initializer_range": 0.02, "intermediate_size": 16,
      "layer_types": ["full_attention"], "max_position_embeddings": 64, "max_window_layers": 28,
      "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4,
      "no_rope_layers": [1], "num_attention_heads": 2, "num_hidden_layers": 1,
      "num_key_value_heads": 1, "pad_token_id": 3, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
      "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0", "use_cache": false,
      "use_sliding_window": false, "vocab_size": 6})"},
    {"GPT-2", R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
      "attn_pdrop": 0.1, "bos_token_id": 5, "embd_pdrop": 0.1, "eos_token_id": 5,
      "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 64,
      "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 64, "resid_pdrop": 0.1,
      "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
      "summary_type": "cls_index", "summary_use_proj": true, "task_specific_params":
      {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 6})"},
    {"Pythia", R"({"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0, "eos_token_id": 0,
      "hidden_act": "gelu", "hidden_size": 16, "initializer_range": 0.02, "intermediate_size": 16,
      "layer_norm_eps": 1e-05, "max_position_embeddings": 64, "model_type": "gpt_neox",
      "num_attention_heads": 2, "num_hidden_layers": 1, "rotary_emb_base": 10000,
      "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16",
      "transformers_version": "4.24.0", "use_cache": true, "use_parallel_residual": true,
      "vocab_size": 6})"}};

TEST(HfFlagships, NoFieldIsRefused) {
  for (const Flagship& each : kFlagships) {
    const TestFolder folder("flagship");
    folder.write("config.json", each.config);
    try {
      ir::verify(import_synthetic((folder.path / "config.json").string(), 1).graph);
    } catch (const Error& error) {
      ADD_FAILURE() << each.name << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace kvern::import::hf
