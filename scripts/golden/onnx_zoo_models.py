"""The tiny models of the ONNX zoo: their configurations as published checkpoints write them (so
that transformers 4.45 to 5.24 read the same folder), seeded weights, and what transformers
answers."""

import json
import math
import pathlib

VOCAB, WINDOW, MAX_POSITIONS = 384, 16, 128
PROMPTS = ([17, 305, 42, 191, 88], [3, 200, 371, 64, 64, 5, 129, 250, 311, 76, 9], [333, 12, 140])
NEW_TOKENS = 24

_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITIONS,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "use_cache": True,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.4, 1.6, 1.9, 2.2, 2.6],
    "long_factor": [1.5, 1.8, 2.2, 2.8, 3.5, 4.5, 6.0, 8.0],
}
_NO_KV = {"num_key_value_heads": None}


def _config(model_type, architecture, /, **changes):
    fields = {**_COMMON, **changes}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "torch_dtype": "float32",
        **{key: value for key, value in fields.items() if changes.get(key, "") is not None},
    }


# An absent field is spelt None: it takes the family's default, but for the token ids.
MODELS = {
    "llama_mha": _config("llama", "LlamaForCausalLM", num_key_value_heads=4, head_dim=16),
    "llama_gqa": _config("llama", "LlamaForCausalLM", head_dim=16, rope_scaling=_LLAMA3),
    "mistral": _config("mistral", "MistralForCausalLM", head_dim=16, sliding_window=WINDOW),
    "qwen2": _config("qwen2", "Qwen2ForCausalLM", use_sliding_window=False),
    "qwen3": _config("qwen3", "Qwen3ForCausalLM", head_dim=16, tie_word_embeddings=True),
    "phi3": _config(
        "phi3", "Phi3ForCausalLM", sliding_window=WINDOW,
        original_max_position_embeddings=MAX_POSITIONS),
    "phi3_longrope": _config(
        "phi3", "Phi3ForCausalLM", rope_scaling=_LONGROPE, original_max_position_embeddings=32),
    "gemma2": _config(
        "gemma2", "Gemma2ForCausalLM", head_dim=16, query_pre_attn_scalar=24,
        sliding_window=WINDOW, attn_logit_softcapping=2.0, final_logit_softcapping=8.0,
        hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True),
    "gemma3": _config(
        "gemma3_text", "Gemma3ForCausalLM", num_hidden_layers=3, num_key_value_heads=1,
        head_dim=16, query_pre_attn_scalar=24, sliding_window=WINDOW, sliding_window_pattern=3,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_theta=1000000.0, rope_local_base_freq=10000.0,
        hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True),
    "gpt2": {
        **_config("gpt2", "GPT2LMHeadModel", **dict.fromkeys(
            ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
             "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta"))),
        "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": MAX_POSITIONS, "n_inner": 96,
        "tie_word_embeddings": True,
    },
    "gpt_neox": _config(
        "gpt_neox", "GPTNeoXForCausalLM", **_NO_KV, rms_norm_eps=None, rope_theta=None,
        hidden_act="gelu", rotary_pct=0.5, rotary_emb_base=10000, use_parallel_residual=True),
    "opt": _config(
        "opt", "OPTForCausalLM", **_NO_KV, intermediate_size=None, rms_norm_eps=None,
        rope_theta=None, ffn_dim=96, word_embed_proj_dim=64, do_layer_norm_before=True,
        activation_function="relu", tie_word_embeddings=True),
    "bloom": {
        **_config("bloom", "BloomForCausalLM", **_NO_KV, intermediate_size=None,
                  num_hidden_layers=None, num_attention_heads=None,
                  max_position_embeddings=None, rms_norm_eps=None, rope_theta=None,
                  tie_word_embeddings=True),
        "n_layer": 2, "n_head": 4,
    },
    "falcon": _config(
        "falcon", "FalconForCausalLM", **_NO_KV, intermediate_size=None, rms_norm_eps=None,
        alibi=False, bias=False, multi_query=True, new_decoder_architecture=False,
        parallel_attn=True, tie_word_embeddings=True),
    "stablelm": _config(
        "stablelm", "StableLmForCausalLM", rms_norm_eps=None, layer_norm_eps=1e-5,
        partial_rotary_factor=0.25, use_qkv_bias=True),
    "olmo2": _config("olmo2", "Olmo2ForCausalLM"),
    "granite": _config(
        "granite", "GraniteForCausalLM", embedding_multiplier=3.0, residual_multiplier=0.4,
        attention_multiplier=0.2, logits_scaling=2.5),
    "smollm3": _config(
        "smollm3", "SmolLM3ForCausalLM", num_hidden_layers=3, no_rope_layers=[1, 0, 1],
        no_rope_layer_interval=2, use_sliding_window=False),
}
_HALVED = ("hidden_size", "intermediate_size", "n_embd", "n_inner", "ffn_dim",
           "word_embed_proj_dim")


def config(name, hidden):
    """Hidden 32 is for the committed ones; what has a head_dim of its own keeps it."""
    fields = dict(MODELS[name])
    for key in _HALVED:
        if hidden == 32 and key in fields:
            fields[key] //= 2
    if hidden == 32 and name == "phi3_longrope":
        raise ValueError("phi3_longrope exists with hidden 64 only: its factors are per head_dim")
    return fields


_LAST_NORMS = ("model.norm.weight", "ln_f.weight", "decoder.final_layer_norm.weight")
# A reference is wanted that tells: clear winners, and not the same token again and again.
_MIN_MARGIN, _MIN_DISTINCT = 4e-3, 6


def _draw(name, shape, random, gemma, tied):
    import torch

    values = torch.randn(shape, generator=random)
    if "word_embeddings_layernorm" in name:
        return (0.1 if name.endswith("weight") else 0.0) + 0.02 * values
    if len(shape) == 1:
        gain = 0.0 if "bias" in name else 1.0
        if tied and gain and name.endswith(_LAST_NORMS):
            gain = 3.0  # what the small embedding takes away
        return gain - (1.0 if gemma else 0.0) + 0.2 * values
    if any(part in name for part in ("embed_out", "lm_head")):
        return 2.0 * values / math.sqrt(shape[1])
    if any(part in name for part in ("wpe", "embed_positions")):
        return 0.5 * values
    if any(part in name for part in ("embed", "wte")):
        # Small where it is the head too: a large one answers every token with itself.
        return (0.02 if gemma else 0.15 if tied else 1.0) * values
    fan_in = shape[0] if ".c_" in name else shape[1]
    gain = 1.8 if any(part in name for part in ("q_proj", "k_proj")) else 1.3
    return gain * values / math.sqrt(fan_in)


def make_checkpoint(name, folder, hidden, attempt):
    """config.json and model.safetensors (under the published tensor names)."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    folder.mkdir(parents=True, exist_ok=True)
    fields = config(name, hidden)
    text = json.dumps(fields, indent=2, sort_keys=True) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(folder), attn_implementation="eager")
    random = torch.Generator().manual_seed(sum(map(ord, name)) + hidden + 1000 * attempt)
    tied = fields["tie_word_embeddings"]
    state = {}
    for key, parameter in model.named_parameters():
        if tied and key in ("lm_head.weight", "embed_out.weight"):
            continue
        value = _draw(key, tuple(parameter.shape), random, name.startswith("gemma"), tied)
        # GPT-NeoX's head is embed_out in every published file; transformers 5 calls it lm_head.
        published = "embed_out.weight" if (name, key) == ("gpt_neox", "lm_head.weight") else key
        state[published] = value.contiguous()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def load(folder, attention=None):
    from transformers import AutoModelForCausalLM
    import torch

    changes = {} if attention is None else {"attn_implementation": attention}
    return AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32, **changes).eval()


def answer(folder):
    """Greedy ids and logits (of a larger vocabulary the first VOCAB) after the prompt and at the
    end, by eager transformers, in full each time."""
    import torch

    model = load(folder, "eager")
    answers = []
    with torch.no_grad():
        for prompt in PROMPTS:
            ids, logits, margin = list(prompt), None, math.inf
            for _ in range(NEW_TOKENS):
                row = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
                logits = row if logits is None else logits
                best = row.topk(2).values
                margin = min(margin, float(best[0] - best[1]))
                ids.append(int(row.argmax()))
            answers.append({
                "ids": prompt, "greedy": ids[len(prompt):], "min_margin": round(margin, 6),
                "logits": [round(float(value), 6) for value in logits[:VOCAB]],
                "last_logits": [round(float(value), 6) for value in row[:VOCAB]],
            })
    return answers


def checkpoint(root, name, hidden):
    """The folder of a model; made with its reference on first use, in the set `now`."""
    folder = pathlib.Path(root) / name / "hf"
    if not (folder / "reference.json").is_file():
        for attempt in range(50):
            make_checkpoint(name, folder, hidden, attempt)
            answers = answer(folder)
            if min(a["min_margin"] for a in answers) >= _MIN_MARGIN and min(
                    len(set(a["greedy"])) for a in answers) >= _MIN_DISTINCT:
                break
        else:
            raise AssertionError(f"{name}: no draw gives a reference that tells")
        reference = json.dumps(answers, separators=(",", ":")) + "\n"
        (folder / "reference.json").write_text(reference, encoding="utf-8")
    return folder
