#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into tests/fuzz/seeds/: small valid inputs that random bytes
would take hours to find. Standard library only.

    tests/fuzz/make_seeds.py
"""

import json
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


def token(index, content, **flags):
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": index, "content": content, **{name: flags.get(name, False) for name in names}}


def tokenizer_json(kind):
    """A tokenizer.json with one of everything that its kind knows."""
    added = [token(0, "<s>", special=True), token(1, "WORD", single_word=True, normalized=True),
             token(2, "<mask>", lstrip=True, rstrip=True)]
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    pieces = ["<s>", "WORD", "<mask>", "<unk>", "a", "b", "ab", "e", "l", "ll", "\u2581", "\u2581a"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    bpe = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True,
           "vocab": vocab, "merges": ["a b"], "ignore_merges": False}
    if kind == "bytes":
        split = {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s+"}, "behavior": "Isolated",
                 "invert": False}
        level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                 "use_regex": True}
        post = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                           {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
        return {**base, "normalizer": {"type": "NFC"},
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
                "post_processor": post, "decoder": level, "model": bpe}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    if kind == "sentencepiece":
        for byte in range(256):
            vocab[f"<0x{byte:02X}>"] = len(vocab)
        steps = [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Lowercase"}, replace]
        return {**base, "normalizer": {"type": "Sequence", "normalizers": steps},
                "pre_tokenizer": {"type": "Digits", "individual_digits": True},
                "post_processor": None,
                "decoder": {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"},
                                                             {"type": "Fuse"}, strip]},
                "model": {**bpe, "byte_fallback": True}}
    steps = [{"type": "Nmt"}, {"type": "NFKD"}, {"type": "StripAccents"},
             {"type": "Strip", "strip_left": True, "strip_right": False},
             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    splits = [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}, space]
    return {**base, "normalizer": {"type": "Sequence", "normalizers": steps},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits},
            "post_processor": None, "decoder": space,
            "model": {"type": "Unigram", "unk_id": 3, "byte_fallback": False,
                      "vocab": [[piece, -1.5 * index] for index, piece in enumerate(pieces)]}}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def tokenizer_model(model_type):
    """A SentencePiece model: 1 Unigram, 2 BPE with byte fallback."""
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("WORD", 0, 4)]
    pieces += [(f"<0x{byte:02X}>", 0, 6) for byte in (range(256) if model_type == 2 else [])]
    pieces += [(piece, -float(index), 1) for index, piece in
               enumerate(["\u2581", "a", "b", "ab", "\u2581a", "e", "l", "ll", "o"])]
    out = b""
    for piece, score, kind in pieces:
        out += message(1, message(1, piece.encode()) + b"\x15" + struct.pack("<f", score)
                       + b"\x18" + varint(kind))
    out += message(2, b"\x18" + varint(model_type) + varint(35 << 3) + varint(model_type == 2))
    return out + message(3, message(1, b"identity") + b"\x18\x01\x20" + varint(model_type == 1))


def onnx_node(op, inputs, outputs, *attributes, domain=""):
    out = b"".join(message(1, name.encode()) for name in inputs)
    out += b"".join(message(2, name.encode()) for name in outputs)
    out += message(3, b"n_" + op.encode()) + message(4, op.encode())
    return out + b"".join(message(5, a) for a in attributes) + message(7, domain.encode())


def onnx_attribute(name, kind, value):
    return message(1, name.encode()) + varint(20 << 3) + varint(kind) + value


def onnx_tensor(name, kind, dims, data):
    out = b"".join(b"\x08" + varint(dim) for dim in dims) + b"\x10" + varint(kind)
    return out + message(8, name.encode()) + data


def onnx_value(name, kind, *dims):
    shape = b"".join(message(1, b"\x08" + varint(d) if isinstance(d, int) else
                             message(2, d.encode())) for d in dims)
    return message(1, name.encode()) + message(2, message(1, b"\x08" + varint(kind)
                                                          + message(2, shape)))


def onnx_model():
    """Tensors in every field, a branch that captures, a function in a function, an old opset."""
    raw = [("w", 1, [2], message(9, struct.pack("<2f", 1, 2))),
           ("f", 1, [2], message(4, struct.pack("<2f", 1, 2))),
           ("u", 1, [1], b"\x25" + struct.pack("<f", 3)),
           ("h", 10, [2], message(5, varint(0x3c00) + varint(1))),
           ("l", 7, [3], message(7, varint(1) + varint(300) + varint(2))),
           ("q", 22, [3], message(9, b"\x8f\x07")), ("b", 9, [2], message(9, b"\x02\0")),
           ("d", 11, [1], message(10, struct.pack("<d", 1))), ("v", 13, [1], message(11, b"\x05"))]
    outside = [(b"location", b"x.data"), (b"offset", b"8"), (b"length", b"8")]
    entries = b"".join(message(13, message(1, key) + message(2, value)) for key, value in outside)
    constant = onnx_tensor("", 7, [], message(9, struct.pack("<q", 4)))
    branch = (message(1, onnx_node("Neg", ["x"], ["r"])) + message(12, onnx_value("r", 1))
              + message(5, onnx_tensor("k", 1, [1], message(9, struct.pack("<f", 1)))))
    nodes = [onnx_node("Late", ["c"], ["late"]),
             onnx_node("Constant", [], ["c"], onnx_attribute("value", 4, message(5, constant))),
             onnx_node("If", ["c"], ["i"], onnx_attribute("then_branch", 5, message(6, branch))),
             onnx_node("Twice", ["x", ""], ["t"], onnx_attribute("axis", 2, b"\x18\x01"),
                       domain="own"),
             onnx_node("Odd", ["x", "t"], ["y", ""], onnx_attribute("s", 3, message(4, b"ab")),
                       onnx_attribute("fs", 6, message(7, struct.pack("<2f", 1, 2))),
                       onnx_attribute("is", 7, b"\x40\x01\x40\x02"),
                       onnx_attribute("ss", 8, message(9, b"a") + message(9, b"")))]
    graph = b"".join(message(1, node) for node in nodes)
    graph += b"".join(message(5, onnx_tensor(*each)) for each in raw)
    graph += message(11, onnx_value("x", 1, "batch", 2)) + message(12, onnx_value("y", 1, "batch"))
    reference = message(1, b"axis") + varint(20 << 3) + b"\x02" + message(21, b"axis")
    inner = onnx_node("Softmax", ["a"], ["m"], reference)
    functions = [message(1, b"Twice") + message(4, b"a") + message(4, b"o") + message(5, b"r")
                 + message(6, b"axis") + message(7, onnx_node("Once", ["a"], ["r"], domain="own"))
                 + message(10, b"own"),
                 message(1, b"Once") + message(4, b"a") + message(5, b"m") + message(7, inner)
                 + message(9, b"\x10\x0d") + message(10, b"own")
                 + message(11, onnx_attribute("axis", 2, b"\x18\x03"))]
    out = b"\x08\x08" + message(2, b"seeds") + message(7, graph) + message(8, b"\x10\x12")
    out += b"".join(message(25, function) for function in functions)
    out += message(14, message(1, b"key") + message(2, b"value"))
    external = message(1, onnx_node("Neg", ["w"], ["y"])) + message(12, onnx_value("y", 1))
    external += message(5, onnx_tensor("w", 1, [2], entries + b"\x70\x01"))
    return out, b"\x08\x08" + message(7, external) + message(8, b"\x10\x12")


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


def saved_context(ids, computed):
    """For the shape of saved_context_fuzz.cpp; its sums are 0: the fuzzer does not look at them."""
    groups = [(0, -(-computed // 4), 16)]
    first = max(0, computed - 6 + 1) // 4
    groups.append((first, -(-computed // 4) - first, 24))
    header = struct.pack("<QI4sQQI", 1, 4, b"fuzz", 2, 0, len(ids)) + struct.pack(f"<{len(ids)}i", *ids)
    header += struct.pack("<qI", computed, len(groups))
    header += b"".join(struct.pack("<qq", first, count) for first, count, _ in groups)
    pages = bytes(sum(count * size for _, count, size in groups))
    start = struct.pack("<8sIIQQQQ", b"KVERNCTX", 2, 0, len(header), len(pages), 0, 0)
    return start + header + pages


def safetensors():
    """Two tensors and a mask of bytes."""
    header = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape, size in [("a.weight", "F32", [2, 3], 24), ("a.bias", "BF16", [2], 4),
                                     ("mask", "U8", [1, 1, 2, 2], 4), ("one", "F16", [], 2)]:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(end)


def hf_config(rope, **fields):
    """For the tensors of hf_config_fuzz.cpp."""
    config = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "vocab_size": 6,
              "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
              "eos_token_id": [1, 2], "rope_parameters": {"rope_theta": 1e4, **rope}}
    return json.dumps({**config, **fields}, separators=(",", ":")).encode()


def main():
    write("safetensors/four.safetensors", safetensors())
    write("hf_config/llama3.json", hf_config({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}))
    write("hf_config/yarn.json", hf_config({"rope_type": "yarn", "factor": 4.0},
                                           original_max_position_embeddings=16))
    write("hf_config/longrope.json", hf_config({
        "rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [2.0, 4.0],
        "original_max_position_embeddings": 16}))
    for family in ("mistral", "qwen2", "granite", "smollm3"):
        write(f"hf_config/{family}.json", hf_config({"rope_type": "linear", "factor": 2.0},
                                                    model_type=family, sliding_window=8))
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "x.safetensors"}}
    write("hf_config/index.json", json.dumps(index).encode())
    generation = {"do_sample": True, "temperature": 0.5, "top_k": 9, "top_p": 0.9,
                  "eos_token_id": [1, 300], "repetition_penalty": 1.1}
    write("hf_config/generation.json", json.dumps(generation).encode())
    write("gguf/v3_f32.gguf", gguf(3, 0))
    write("gguf/v2_f16.gguf", gguf(2, 1))
    write("gguf/v3_bf16.gguf", gguf(3, 30))
    whole, external = onnx_model()
    write("onnx/whole.onnx", whole)
    write("onnx/external.onnx", external)
    write("onnx/tensor.pb", onnx_tensor("w", 1, [2], message(9, struct.pack("<2f", 1, 2))))
    write("chat_template/chatml.jinja", CHATML.encode())
    write("chat_template/pieces.jinja", PIECES.encode())
    write("fields/text", b'{eps = 1e-05, heads = 9, name = "a\\"b", sizes = [1, 2], on = true}')
    write("json/all.json", b'{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {"c": {}}}')
    for kind in ("bytes", "sentencepiece", "unigram"):
        seed = json.dumps(tokenizer_json(kind), ensure_ascii=False, separators=(",", ":"))
        write(f"tokenizer_json/{kind}.json", seed.encode())
    write("tokenizer_model/unigram.model", tokenizer_model(1))
    write("tokenizer_model/bpe.model", tokenizer_model(2))
    write("saved_context/all.kvc", saved_context(range(15), 14))
    write("saved_context/ids.kvc", saved_context([3, 1, 4], 0))
    write("tokenizer/mixed", "Hello, 12 mills' wheels\n\n  turn — 水車 🌊 <|end|>".encode())


if __name__ == "__main__":
    main()
