"""The tiny model of each family: its configuration, and its features, each with what switches it off:
changes of the configuration, or the name of an action of tiny_families.py."""

import torch

_SIZES = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


def _rope(**fields):
    return {"rope_parameters": {**_PLAIN, **fields}}


FAMILIES = {
    "llama": {
        "model_type": "llama",
        "dtype": torch.float32,
        "shard": "48KB",
        "config": {**_SIZES, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_parameters": _LLAMA3},
        "features": {"rope": "rope", "rope scaling": _rope(), "rope base": _rope(
            **{**_LLAMA3, "rope_theta": 500.0})},
        "gguf": {},
    },
    "llama_yarn": {
        "model_type": "llama",
        "family": "llama",
        "config": {**_SIZES, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
                   **_rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=16)},
        "embed_gain": 0.5,
        "features": {"rope": "rope", "rope scaling": _rope(), "bias": "bias"},
        "gguf": {},
    },
    "mistral": {
        "model_type": "mistral",
        "config": {**_SIZES, "head_dim": 12, "sliding_window": 16, **_rope()},
        "features": {"rope": "rope", "window": {"sliding_window": None}},
    },
    "qwen2": {
        "model_type": "qwen2",
        "config": {**_SIZES, "use_sliding_window": True, "sliding_window": 16,
                   "max_window_layers": 1, "tie_word_embeddings": True, **_rope()},
        "embed_gain": 0.5,
        "features": {
            "rope": "rope",
            "window": {"layer_types": ["full_attention"] * 2},
            "window of the second layer alone": {"layer_types": ["sliding_attention"] * 2},
            "bias": "bias",
        },
        "gguf": {"changes": {"layer_types": ["full_attention"] * 2}},  # GGUF has no window here
    },
    "qwen3": {
        "model_type": "qwen3",
        "config": {**_SIZES, "head_dim": 16, **_rope(rope_type="linear", factor=4.0)},
        "features": {"rope": "rope", "rope scaling": _rope(), "q/k norm": "qk_norm"},
        "gguf": {},
    },
    "gemma2": {
        "model_type": "gemma2",
        "config": {**_SIZES, "head_dim": 16, "query_pre_attn_scalar": 9, "sliding_window": 16,
                   "attn_logit_softcapping": 2.0, "final_logit_softcapping": 8.0,
                   "tie_word_embeddings": True, **_rope()},
        "norm_less_one": True,
        "embed_gain": 0.25,
        "features": {
            "rope": "rope",
            "window": {"layer_types": ["full_attention"] * 2},
            "window of the first layer alone": {"layer_types": ["sliding_attention"] * 2},
            "softcap of scores": {"attn_logit_softcapping": None},
            "softcap of logits": {"final_logit_softcapping": None},
            "scale of scores": {"query_pre_attn_scalar": 16},
            "scale of the embedding": "embed_scale",
            "norms after blocks": "post_norms",
            "activation": {"hidden_activation": "silu"},
        },
        "gguf": {"changes": {"query_pre_attn_scalar": 16}},
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "config": {**_SIZES, "num_hidden_layers": 3, "head_dim": 16, "query_pre_attn_scalar": 9,
                   "num_key_value_heads": 1, "sliding_window": 16,
                   "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                   "tie_word_embeddings": True,
                   "rope_parameters": {
                       "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                       "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0,
                                          "factor": 8.0}}},
        "norm_less_one": True,
        "embed_gain": 0.25,
        "features": {
            "rope": "rope",
            "rope of the full layer": {"rope_parameters": {
                "sliding_attention": _PLAIN, "full_attention": _PLAIN}},
            "rope scaling": {"rope_parameters": {
                "sliding_attention": _PLAIN,
                "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}},
            "window": {"sliding_window": 128},
            "q/k norm": "qk_norm",
            "scale of scores": {"query_pre_attn_scalar": 16},
            "scale of the embedding": "embed_scale",
            "norms after blocks": "post_norms",
        },
        "gguf": {"changes": {"query_pre_attn_scalar": 16}},
    },
    "phi3": {
        "model_type": "phi3",
        "config": {**_SIZES, "sliding_window": 16, "rms_norm_eps": 1e-5,
                   **_rope(partial_rotary_factor=0.5)},
        "features": {
            "rope": "rope",
            "window": {"sliding_window": None},
            "partial rotation": _rope(partial_rotary_factor=1.0),
        },
        "gguf": {},
    },
    # Below its original length; beyond it other factors hold, which Kvern does not serve.
    "phi3_longrope": {
        "model_type": "phi3",
        "family": "phi3",
        "config": {**_SIZES, "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
                   "original_max_position_embeddings": 72,
                   **_rope(rope_type="longrope", partial_rotary_factor=0.5,
                           short_factor=[1.5, 3.0], long_factor=[2.0, 5.0])},
        "features": {
            "rope": "rope",
            "short factors": _rope(rope_type="longrope", partial_rotary_factor=0.5,
                                   short_factor=[1.0, 1.0], long_factor=[2.0, 5.0]),
            "attention factor": _rope(rope_type="longrope", partial_rotary_factor=0.5,
                                      attention_factor=1.0, short_factor=[1.5, 3.0],
                                      long_factor=[2.0, 5.0]),
        },
        "gguf": {},
    },
    "olmo2": {
        "model_type": "olmo2",
        "config": {**_SIZES, **_rope()},
        "features": {"rope": "rope", "q/k norm": "qk_norm", "norms after blocks": "post_norms"},
        "gguf": {},
    },
    "granite": {
        "model_type": "granite",
        "config": {**_SIZES, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
                   "attention_multiplier": 0.2, "logits_scaling": 2.5, **_rope()},
        "features": {
            "rope": "rope",
            "embedding multiplier": {"embedding_multiplier": 1.0},
            "residual multiplier": {"residual_multiplier": 1.0},
            "attention multiplier": {"attention_multiplier": 8**-0.5},
            "logits scaling": {"logits_scaling": 1.0},
        },
        "gguf": {},
    },
    "smollm3": {
        "model_type": "smollm3",
        "dtype": torch.float16,
        "config": {**_SIZES, "num_hidden_layers": 4, "intermediate_size": 40, **_rope()},
        "features": {"rope": "rope", "layers without rope": {"no_rope_layers": [1] * 4}},
        "gguf": {},
    },
    "gpt2": {
        "model_type": "gpt2",
        "config": {"vocab_size": 128, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96,
                   "n_inner": 56, "bos_token_id": None, "eos_token_id": 1,
                   "tie_word_embeddings": True},
        "embed_gain": 0.3,
        "features": {"learned positions": "learned_positions", "bias": "bias",
                     "activation": {"activation_function": "relu"}},
        "gguf": {},
    },
    "gpt_neox": {
        "model_type": "gpt_neox",
        "config": {**{k: v for k, v in _SIZES.items() if k != "num_key_value_heads"},
                   "hidden_act": "gelu", **_rope(partial_rotary_factor=0.5)},
        "features": {
            "rope": "rope",
            "partial rotation": _rope(partial_rotary_factor=1.0),
            "parallel residual": {"use_parallel_residual": False},
            "bias": "bias",
            "activation": {"hidden_act": "relu"},
            "GELU by tanh instead of erf": {"hidden_act": "gelu_new"},
        },
        # Where the two forms of GELU differ most for their size.
        "up_bias": -2.0,
        "down_gain": 40.0,
        "gguf": {},
    },
}
