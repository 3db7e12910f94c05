#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/seeds/: small valid inputs that random bytes
would take hours to find. Standard library only.

    tests/fuzz/make_seeds.py
"""

import pathlib
import struct

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"
HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 16, 2, 1, 24, 1
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def strings(values):
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values))


def gguf(version, matrix_type):
    """A Llama of one layer; matrix_type 0: F32, 1: F16, 30: BF16."""
    tokens = ["<|endoftext|>", "<|im_end|>", *"abcdefgh", "ab"]
    types = struct.pack("<IQ", I32, len(tokens)) + struct.pack(f"<{len(tokens)}i", 3, 3, *[1] * 9)
    meta = [
        ("general.architecture", STRING, text("llama")),
        ("general.alignment", U32, struct.pack("<I", 32)),
        ("llama.block_count", U32, struct.pack("<I", LAYERS)),
        ("llama.context_length", U32, struct.pack("<I", 64)),
        ("llama.embedding_length", U32, struct.pack("<I", HIDDEN)),
        ("llama.feed_forward_length", U32, struct.pack("<I", FEED_FORWARD)),
        ("llama.attention.head_count", U32, struct.pack("<I", HEADS)),
        ("llama.attention.head_count_kv", U32, struct.pack("<I", KV_HEADS)),
        ("llama.rope.dimension_count", U32, struct.pack("<I", HIDDEN // HEADS)),
        ("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        ("llama.rope.freq_base", F32, struct.pack("<f", 10000.0)),
        ("tokenizer.ggml.model", STRING, text("gpt2")),
        ("tokenizer.ggml.pre", STRING, text("smollm")),
        ("tokenizer.ggml.tokens", ARRAY, strings(tokens)),
        ("tokenizer.ggml.token_type", ARRAY, types),
        ("tokenizer.ggml.merges", ARRAY, strings(["a b"])),
        ("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 1)),
        ("tokenizer.ggml.add_bos_token", BOOL, b"\0"),
    ]
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = [("token_embd.weight", [HIDDEN, len(tokens)]), ("output_norm.weight", [HIDDEN])]
    for layer in range(LAYERS):
        for name, dims in [("attn_norm", [HIDDEN]), ("attn_q", [HIDDEN, HIDDEN]),
                           ("attn_k", [HIDDEN, kv]), ("attn_v", [HIDDEN, kv]),
                           ("attn_output", [HIDDEN, HIDDEN]), ("ffn_norm", [HIDDEN]),
                           ("ffn_gate", [HIDDEN, FEED_FORWARD]), ("ffn_up", [HIDDEN, FEED_FORWARD]),
                           ("ffn_down", [FEED_FORWARD, HIDDEN])]:
            shapes.append((f"blk.{layer}.{name}.weight", dims))
    out = struct.pack("<IIQQ", 0x46554747, version, len(shapes), len(meta))
    for key, kind, value in meta:
        out += text(key) + struct.pack("<I", kind) + value
    data = b""
    for name, dims in shapes:
        kind = matrix_type if len(dims) == 2 else 0
        count = dims[0] * (dims[1] if len(dims) == 2 else 1)
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += bytes(count * (2 if kind in (1, 30) else 4))
        data += bytes(-len(data) % 32)
    return out + bytes(-len(out) % 32) + data


def write(name, data):
    path = SEEDS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
          "{{ '<|im_start|>system\nYou are Kvern<|im_end|>\n' }}{% endif %}"
          "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
PIECES = ("{%- set ns = namespace(n=0) -%}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}"
          "{{ ns.n ~ '' }}{{ messages[-1].content[1:4] | upper | trim }}{# note #}"
          "{{ 'x' if messages is defined and not false else raise_exception('no') }}"
          "{{ ['a', 'b'] | join(', ') }}{{ messages | length }}{{ messages[0] | tojson }}")


def main():
    write("gguf/v3_f32.gguf", gguf(3, 0))
    write("gguf/v2_f16.gguf", gguf(2, 1))
    write("gguf/v3_bf16.gguf", gguf(3, 30))
    write("chat_template/chatml.jinja", CHATML.encode())
    write("chat_template/pieces.jinja", PIECES.encode())
    write("fields/text", b'{eps = 1e-05, heads = 9, name = "a\\"b", sizes = [1, 2], on = true}')
    write("json/all.json", b'{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {"c": {}}}')
    write("tokenizer/mixed", "Hello, 12 mills' wheels\n\n  turn — 水車 🌊 <|end|>".encode())


if __name__ == "__main__":
    main()
