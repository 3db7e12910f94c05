"""Writes tests/golden/gemma3_greedy.json: transformers fp32 greedy ids of Gemma 3 270M, with BOS.

The weights come from the Q4_K_M GGUF file, dequantised by the `gguf` package; attention is eager.
The last prompt is longer than the window of 512 tokens. The file does not tell the window's pattern
nor the rotary base of its layers: they are transformers' (five of six layers, base 10,000). Per
prompt:

  text, prompt_ids           BOS and the pieces of an encoder of our own (below)
  ids                        48 greedy ids
  min_margin                 smallest top-1 minus top-2 logit of the 48 steps
  first_probe, last_probe    [64] logits of the vocabulary ids in the file's probe_ids

The script fails unless switching off the window, the local base and the norms of q and k each moves
a logit.

    python scripts/golden/gemma3_reference.py MODEL.gguf
"""

import argparse
import copy
import importlib.metadata
import json
import math
import pathlib
import platform

import gguf
import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

import gguf_file

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NUM_TOKENS = 48
PROBE_IDS = [(i * 4099 + 7) % 262144 for i in range(64)]
TEXTS = [
    "The capital of France is",
    "Once upon a time, in a village at the foot of the mountains, there lived",
    "Water boils at 100 degrees Celsius. Water freezes at",
]
LONG_TOKENS = 700
_TYPES = {0: "F32", 1: "F16", 6: "Q5_0", 8: "Q8_0", 12: "Q4_K", 14: "Q6_K"}
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}


class Encoder:
    """Merges the neighbours with the best score until none are left, as SentencePiece's BPE does."""

    def __init__(self, meta):
        tokens, scores = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"]
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.scores = scores

    def __call__(self, text):
        parts = list(text.replace(" ", "\u2581"))
        while True:
            best, at = -math.inf, -1
            for i in range(len(parts) - 1):
                merged = self.ids.get(parts[i] + parts[i + 1])
                if merged is not None and self.scores[merged] > best:
                    best, at = self.scores[merged], i
            if at < 0:
                return [self.ids[part] for part in parts]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]

    def by_words(self, text):
        """The same for text without runs of spaces: no piece reaches over the start of a word."""
        words = text.split(" ")
        pieces = [self(words[0])] + [self(" " + word) for word in words[1:]]
        return [i for piece in pieces for i in piece]


def config_of(meta):
    get = lambda key: meta["gemma3." + key]
    layers = get("block_count")
    full, sliding = "full_attention", "sliding_attention"
    return Gemma3TextConfig(
        vocab_size=len(meta["tokenizer.ggml.tokens"]),
        hidden_size=get("embedding_length"),
        intermediate_size=get("feed_forward_length"),
        num_hidden_layers=layers,
        num_attention_heads=get("attention.head_count"),
        num_key_value_heads=get("attention.head_count_kv"),
        head_dim=get("attention.key_length"),
        query_pre_attn_scalar=get("attention.key_length"),
        max_position_embeddings=get("context_length"),
        rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
        sliding_window=get("attention.sliding_window"),
        layer_types=[full if (i + 1) % 6 == 0 else sliding for i in range(layers)],
        rope_parameters={
            full: {"rope_type": "default", "rope_theta": get("rope.freq_base")},
            sliding: {"rope_type": "default", "rope_theta": 10000.0},
        },
        tie_word_embeddings=True,
    )


def read_state(path):
    data, _, infos, start = gguf_file._parse(path)
    state = {}
    for name, shape, kind, at in infos:
        base = name.removesuffix(".weight")
        target = _NAMES.get(base)
        if target is None:
            _, layer, part = base.split(".")
            target = f"layers.{layer}.{_NAMES[part]}"
        quant = gguf.GGMLQuantizationType[_TYPES[kind]]
        block, size = gguf.GGML_QUANT_SIZES[quant]
        raw = data[start + at : start + at + int(np.prod(shape)) // block * size]
        array = gguf.quants.dequantize(np.array(raw), quant).reshape(shape).astype(np.float32)
        if "norm" in base:
            array = array - 1.0  # transformers adds it back
        state[f"model.{target}.weight"] = torch.from_numpy(array)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def load(config, state):
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = Gemma3ForCausalLM(config)
    model = model.to_empty(device="cpu").eval()
    # Buffers (frequencies, the embedding's scale) are not in the state: made by a fresh rotary
    # module and by hand.
    rotary = type(model.model.rotary_emb)(config)
    model.model.rotary_emb = rotary
    model.model.embed_tokens.embed_scale = torch.tensor(config.hidden_size**0.5)
    model.load_state_dict(state, strict=True, assign=True)
    model.tie_weights()
    return model


@torch.no_grad()
def greedy(model, prompt_ids):
    ids, rows, cache = [], [], None
    step = torch.tensor([prompt_ids])
    for _ in range(NUM_TOKENS):
        out = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        rows.append(out.logits[0, -1])
        ids.append(int(rows[-1].argmax()))
        step = torch.tensor([[ids[-1]]])
    return ids, torch.stack(rows)


@torch.no_grad()
def last_row(model, ids):
    return model(torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1]


def check_features(config, state, ids, wanted):
    def moved(model):
        return float((last_row(model, ids) - wanted).abs().max())

    wide = copy.deepcopy(config)
    wide.sliding_window = 4096
    one_base = copy.deepcopy(config)
    one_base.rope_parameters["sliding_attention"] = one_base.rope_parameters["full_attention"]
    flat = {k: torch.zeros_like(v) if "q_norm" in k else v for k, v in state.items()}
    for what, model in (
        ("nothing", load(config, state)),
        ("window", load(wide, state)),
        ("local base", load(one_base, state)),
        ("q norm", load(config, flat)),
    ):
        difference = moved(model)
        print(f"without {what}: a logit moves by {difference:.2g}", flush=True)
        if (difference < 0.02) != (what == "nothing"):
            raise SystemExit(f"the golden cannot tell {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    args = parser.parse_args()
    torch.set_num_threads(2)
    meta = gguf_file.read_metadata(args.model)
    encode, bos = Encoder(meta), meta["tokenizer.ggml.bos_token_id"]
    config, state = config_of(meta), read_state(args.model)
    model = load(config, state)
    prompts = [(text, [bos] + encode(text)) for text in TEXTS]
    essay = " ".join((GOLDEN / "english_2000.txt").read_text(encoding="utf-8").split())
    prompts.append(("english_2000.txt, its runs of spaces made one", [bos] + encode.by_words(essay)[:LONG_TOKENS]))
    entries = []
    for text, prompt_ids in prompts:
        ids, logits = greedy(model, prompt_ids)
        whole = last_row(model, prompt_ids + ids[:-1])
        top2 = logits.topk(2, dim=-1).values
        entries.append({
            "text": text,
            "prompt_ids": prompt_ids,
            "ids": ids,
            "min_margin": round(float((top2[:, 0] - top2[:, 1]).min()), 6),
            "first_probe": [round(float(v), 5) for v in logits[0, PROBE_IDS]],
            "last_probe": [round(float(v), 5) for v in logits[-1, PROBE_IDS]],
        })
        shown = "".join(meta["tokenizer.ggml.tokens"][i] for i in ids).replace("\u2581", " ")
        print(f"{len(prompt_ids)} tokens, margin {entries[-1]['min_margin']}, uncached differs by "
              f"{float((whole - logits[-1]).abs().max()):.1e}: {shown!r}", flush=True)
    long_ids = prompts[-1][1]
    check_features(config, state, long_ids, last_row(model, long_ids))
    names = ["torch", "transformers", "gguf", "numpy"]
    golden = {
        "model_sha256": gguf_file.sha256(args.model),
        "versions": {"python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in names}},
        "probe_ids": PROBE_IDS,
        "prompts": entries,
    }
    path = GOLDEN / "gemma3_greedy.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="ascii")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
