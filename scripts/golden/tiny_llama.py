"""tests/golden/tiny_llama.gguf (f32), tiny_llama_q.gguf (Q4_1, embedding Q8_0) and tiny_llama.json:
a two-layer Llama with seeded random weights, and what transformers answers in fp32.

    python scripts/golden/tiny_llama.py tests/golden
"""

import json
import pathlib
import sys

import numpy as np
import regex
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

import gguf_file
import gguf_writer
import smollm2_model

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 64, 2, 4, 2, 16
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB = 320
ROPE_BASE, EPS, CONTEXT = 10000.0, 1e-5, 512
GREEDY_TOKENS = 24
MIN_MARGIN = 1e-3
PROMPTS = [
    "The harbour is quiet in the morning.",
    "In 2024 there were 37 ships",
    "a",
    "Grüße, 世界! \n\n  indented\ttext",
]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _byte_characters():
    """GPT-2's printable character of each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, spare = {}, 256
    for byte in range(256):
        table[byte] = chr(byte if byte in kept else spare)
        spare += byte not in kept
    return table


def _train_merges(text, count):
    """The most frequent neighbours, `count` times; ties go to the smaller pair."""
    table = _byte_characters()
    words = {}
    for word in regex.findall(r" ?\p{L}+", text):
        key = tuple(table[byte] for byte in word.encode("utf-8"))
        words[key] = words.get(key, 0) + 1
    merges = []
    for _ in range(count):
        pairs = {}
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_merge(word, best): times for word, times in words.items()}
    return merges


def _merge(word, pair):
    out, at = [], 0
    while at < len(word):
        if word[at : at + 2] == pair:
            out.append(word[at] + word[at + 1])
            at += 2
        else:
            out.append(word[at])
            at += 1
    return tuple(out)


def _vocabulary(text):
    table = _byte_characters()
    merges = _train_merges(text, VOCAB - len(SPECIAL) - 256)
    tokens = SPECIAL + [table[byte] for byte in range(256)] + [a + b for a, b in merges]
    assert len(tokens) == len(set(tokens)) == VOCAB
    return tokens, merges


def _tokenizer(tokens, merges):
    ids = {token: i for i, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _weights():
    """GGUF name -> array as transformers orders its rows; scales chosen so that logits spread."""
    random = np.random.default_rng(20240607)

    def matrix(rows, columns, gain=1.6):
        return (random.standard_normal((rows, columns)) * gain / columns**0.5).astype(np.float32)

    def gamma():
        return (1 + 0.2 * random.standard_normal(HIDDEN)).astype(np.float32)

    out = {"token_embd": matrix(VOCAB, HIDDEN, gain=2.5), "output_norm": gamma()}
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        out[at + "attn_norm"] = gamma()
        out[at + "attn_q"] = matrix(HEADS * HEAD_DIM, HIDDEN)
        out[at + "attn_k"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        out[at + "attn_v"] = matrix(KV_HEADS * HEAD_DIM, HIDDEN)
        out[at + "attn_output"] = matrix(HIDDEN, HEADS * HEAD_DIM)
        out[at + "ffn_norm"] = gamma()
        out[at + "ffn_gate"] = matrix(FFN, HIDDEN)
        out[at + "ffn_up"] = matrix(FFN, HIDDEN)
        out[at + "ffn_down"] = matrix(HIDDEN, FFN)
    return out


def _permute(weight, heads):
    """To GGUF's row order: rotary pairs (i, i + dim/2) side by side."""
    split = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    return np.ascontiguousarray(split.swapaxes(1, 2)).reshape(weight.shape)


def _metadata(tokens, merges, name):
    return {
        "general.architecture": "llama",
        "general.name": name,
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": FFN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.key_length": HEAD_DIM,
        "llama.attention.value_length": HEAD_DIM,
        "llama.attention.layer_norm_rms_epsilon": EPS,
        "llama.rope.freq_base": ROPE_BASE,
        "llama.rope.dimension_count": HEAD_DIM,
        "llama.vocab_size": VOCAB,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (VOCAB - len(SPECIAL)),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def _write(path, metadata, weights, quantised):
    tensors = []
    for name, array in weights.items():
        if name.endswith("attn_q"):
            array = _permute(array, HEADS)
        if name.endswith("attn_k"):
            array = _permute(array, KV_HEADS)
        kind = "F32"
        if quantised and array.ndim == 2:
            kind = "Q8_0" if name == "token_embd" else "Q4_1"
        tensors.append((name + ".weight", kind, array))
    gguf_writer.write(path, metadata, tensors)


def _model(path):
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=FFN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        hidden_act="silu",
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    model.load_state_dict(smollm2_model._state_dict(path, config), strict=True)
    return model


def _numbers(row):
    return [float(f"{value:.7g}") for value in row.tolist()]


@torch.no_grad()
def _answer(model, ids):
    """Greedy, recomputed whole at every token; the smallest distance of the best two logits."""
    greedy, margin = [], float("inf")
    prompt_logits = model(torch.tensor([ids])).logits[0]
    for _ in range(GREEDY_TOKENS):
        last = model(torch.tensor([ids + greedy])).logits[0, -1]
        best = last.topk(2).values
        margin = min(margin, float(best[0] - best[1]))
        greedy.append(int(last.argmax()))
    return prompt_logits, greedy, margin


def _golden(path, tokenizer):
    model = _model(path)
    prompts = []
    for index, text in enumerate(PROMPTS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        logits, greedy, margin = _answer(model, ids)
        assert margin > MIN_MARGIN, (text, margin)
        rows = logits if index == 0 else logits[-1:]
        prompts.append(
            {
                "text": text,
                "ids": ids,
                "greedy_ids": greedy,
                "min_margin": round(margin, 5),
                "logits_from": len(ids) - len(rows),
                "logits": [_numbers(row) for row in rows],
            }
        )
        print(path.name, repr(text), greedy, f"margin {margin:.4f}")
    return {"sha256": gguf_file.sha256(path), "prompts": prompts}


def main(folder):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    corpus = (folder / "english_2000.txt").read_text(encoding="utf-8")
    tokens, merges = _vocabulary(corpus)
    tokenizer, weights = _tokenizer(tokens, merges), _weights()
    golden = {"versions": smollm2_model.versions(), "models": {}}
    for name, quantised in [("tiny_llama.gguf", False), ("tiny_llama_q.gguf", True)]:
        path = folder / name
        _write(path, _metadata(tokens, merges, name.removesuffix(".gguf")), weights, quantised)
        golden["models"][name] = _golden(path, tokenizer)
    # One line per row of numbers keeps the file readable in a diff.
    text = json.dumps(golden, ensure_ascii=False, indent=1)
    text = regex.sub(r"\[\s+([-\d.e+,\s]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    (folder / "tiny_llama.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
