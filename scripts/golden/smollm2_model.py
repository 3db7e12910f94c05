"""SmolLM2 in transformers, fp32 and eager, from the GGUF file dequantised by gguf_file.py."""

import importlib.metadata
import platform

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import gguf_file

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def _unpermute(weight, num_heads):
    """GGUF's Llama keeps rotary pairs together (2i, 2i+1); transformers wants (i, i + dim/2)."""
    rows, columns = weight.shape
    split = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(rows, columns)


def _config(meta):
    heads = meta["llama.attention.head_count"]
    return LlamaConfig(
        vocab_size=meta["llama.vocab_size"],
        hidden_size=meta["llama.embedding_length"],
        intermediate_size=meta["llama.feed_forward_length"],
        num_hidden_layers=meta["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=meta["llama.attention.head_count_kv"],
        head_dim=meta["llama.embedding_length"] // heads,
        max_position_embeddings=meta["llama.context_length"],
        rms_norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        hidden_act="silu",
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )


def _state_dict(path, config):
    state = {}
    for name, array in gguf_file.read_tensors(path).items():
        base = name.removesuffix(".weight")
        if base in _TOP_NAMES:
            target = _TOP_NAMES[base]
        else:
            _, layer, part = base.split(".")
            target = f"model.layers.{layer}.{_LAYER_NAMES[part]}"
            if part == "attn_q":
                array = _unpermute(array, config.num_attention_heads)
            if part == "attn_k":
                array = _unpermute(array, config.num_key_value_heads)
        state[target + ".weight"] = torch.from_numpy(np.array(array, dtype=np.float32))
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def load(path):
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    config = _config(gguf_file.read_metadata(path))
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    model.load_state_dict(_state_dict(path, config), strict=True)
    return model


def versions():
    names = ["torch", "transformers", "tokenizers", "numpy", "jinja2"]
    found = {name: importlib.metadata.version(name) for name in names}
    return {"python": platform.python_version(), **found}
