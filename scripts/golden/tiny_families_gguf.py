"""A transformers model as a GGUF file in f32: names, row orders and metadata as the format's own
converters have them. For the tiny models of tiny_families.py."""

import numpy as np

import gguf_writer

_ARCHITECTURE = {"gpt_neox": "gptneox"}
_PAIRS = ("llama", "granite", "smollm3")  # rotary pairs lie side by side
_GEMMA = ("gemma2", "gemma3")             # norms get the 1 that their files lack

_NAMES = [
    ("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.qkv_proj", "attn_qkv"), ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
    # GPT-2
    ("transformer.wte", "token_embd"), ("transformer.wpe", "position_embd"),
    ("transformer.ln_f", "output_norm"), ("transformer.h.", "blk."), ("attn.c_attn", "attn_qkv"),
    ("attn.c_proj", "attn_output"), ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down"),
    ("ln_1", "attn_norm"), ("ln_2", "ffn_norm"),
    # GPT-NeoX
    ("gpt_neox.embed_in", "token_embd"), ("gpt_neox.final_layer_norm", "output_norm"),
    ("embed_out", "output"), ("gpt_neox.layers.", "blk."),
    ("attention.query_key_value", "attn_qkv"), ("attention.dense", "attn_output"),
    ("mlp.dense_h_to_4h", "ffn_up"), ("mlp.dense_4h_to_h", "ffn_down"),
    ("input_layernorm", "attn_norm"),
]
_NORMS = [("post_attention_layernorm", "ffn_norm")]
_SANDWICH = [
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
]


def _name(family, name):
    norms = _SANDWICH if family in (*_GEMMA, "olmo2") else _NORMS
    for theirs, ours in _NAMES + norms:
        name = name.replace(theirs, ours)
    return name


def _pairs(array, heads):
    split = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(array.shape)


def _sort_heads(array, heads):
    """[heads][q, k, v][dim] -> q, k, v of all heads below each other."""
    split = array.reshape(heads, 3, -1, *array.shape[1:])
    return np.ascontiguousarray(split.swapaxes(0, 1)).reshape(array.shape)


def _array(family, name, array, config):
    heads = config.num_attention_heads
    if family in _PAIRS and ".attn_q." in name:
        return _pairs(array, heads)
    if family in _PAIRS and ".attn_k." in name:
        return _pairs(array, config.num_key_value_heads)
    if family == "gpt_neox" and "attn_qkv" in name:
        return _sort_heads(array, heads)
    if family == "gpt2" and array.ndim == 2 and name.startswith("blk."):
        return np.ascontiguousarray(array.T)
    if family in _GEMMA and name.endswith("norm.weight"):
        return array + 1
    return array


def _rope(family, config, head_dim):
    parameters = config.rope_parameters
    parameters = parameters.get("full_attention", parameters)
    part = parameters.get("partial_rotary_factor") or 1.0
    out = {"rope.freq_base": float(parameters["rope_theta"]),
           "rope.dimension_count": int(head_dim * part)}
    if parameters["rope_type"] == "linear":
        out["rope.scaling.type"] = "linear"
        out["rope.scaling.factor"] = float(parameters["factor"])
    if parameters["rope_type"] == "yarn":
        out["rope.scaling.type"] = "yarn"
        out["rope.scaling.factor"] = float(parameters["factor"])
        out["rope.scaling.original_context_length"] = parameters["original_max_position_embeddings"]
    if parameters["rope_type"] == "longrope":
        original = config.original_max_position_embeddings
        longer = config.max_position_embeddings / original
        out["rope.scaling.original_context_length"] = original
        out["rope.scaling.attn_factor"] = float(
            np.sqrt(1 + np.log(longer) / np.log(original)) if longer > 1 else 1.0)
    return out


def _metadata(family, config):
    hidden, heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    inner = config.n_inner if family == "gpt2" else config.intermediate_size
    out = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": hidden,
        "feed_forward_length": inner,
        "attention.head_count": heads,
    }
    if family == "gpt2":
        return out | {"attention.layer_norm_epsilon": config.layer_norm_epsilon}
    out |= _rope(family, config, head_dim)
    if family == "gpt_neox":
        return out | {"attention.layer_norm_epsilon": config.layer_norm_eps,
                      "use_parallel_residual": config.use_parallel_residual}
    out |= {"attention.head_count_kv": config.num_key_value_heads,
            "attention.layer_norm_rms_epsilon": config.rms_norm_eps}
    if head_dim * heads != hidden:
        out |= {"attention.key_length": head_dim, "attention.value_length": head_dim}
    if family in ("phi3", *_GEMMA):
        out["attention.sliding_window"] = config.sliding_window or 0
    if family == "gemma2":
        out |= {"attn_logit_softcapping": config.attn_logit_softcapping,
                "final_logit_softcapping": config.final_logit_softcapping}
    if family == "gemma3":  # the pattern of the tiny model; absent, it is 6
        out["attention.sliding_window_pattern"] = 3
    if family == "granite":
        out |= {"embedding_scale": config.embedding_multiplier,
                "residual_scale": config.residual_multiplier,
                "attention.scale": config.attention_multiplier,
                "logit_scale": config.logits_scaling}
    return out


def _llama3_factors(config):
    """What Llama 3.1's scaling divides each frequency by, as the tensor rope_freqs."""
    p = config.rope_parameters
    old, factor = p["original_max_position_embeddings"], p["factor"]
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    dims = np.arange(0, config.head_dim, 2, dtype=np.float32) / config.head_dim
    turns = old * (1.0 / p["rope_theta"] ** dims) / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1.0 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def write(path, name, model, family):
    config = model.config
    architecture = _ARCHITECTURE.get(family, family)
    metadata = {"general.architecture": architecture, "general.name": f"tiny_{name}",
                "tokenizer.ggml.model": "no_vocab"}
    metadata |= {f"{architecture}.{key}": value for key, value in _metadata(family, config).items()}
    tied = config.tie_word_embeddings
    tensors = []
    for theirs, tensor in model.state_dict().items():
        ours = _name(family, theirs)
        if tied and ours == "output.weight":
            continue
        tensors.append((ours, "F32", _array(family, ours, tensor.numpy(), config)))
    if family == "phi3" and config.rope_parameters["rope_type"] == "longrope":
        for kind in ("long", "short"):
            factors = np.array(config.rope_parameters[f"{kind}_factor"], dtype=np.float32)
            tensors.append((f"rope_factors_{kind}.weight", "F32", factors))
    if config.to_dict().get("rope_parameters", {}).get("rope_type") == "llama3":
        tensors.append(("rope_freqs.weight", "F32", _llama3_factors(config)))
    gguf_writer.write(path, metadata, tensors)
