"""tests/golden/onnx_contrib.txt: com.microsoft ops (and those that stand in ONNX's domain without
being ONNX's) as ONNX Runtime computes them on the CPU.

    pip install onnxruntime==1.32.0 onnx==1.22.0
    python contrib_cases.py ../../tests/golden/onnx_contrib.txt
"""

import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

import tensor_text

MS = "com.microsoft"
F, F16, I32, I64, U8, I8, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.BOOL,
)
TYPES = {
    np.dtype(np.float32): F,
    np.dtype(np.float16): F16,
    np.dtype(np.int32): I32,
    np.dtype(np.int64): I64,
    np.dtype(np.uint8): U8,
    np.dtype(np.int8): I8,
    np.dtype(np.bool_): BOOL,
}

random = np.random.default_rng(20261129)
cases = []


def floats(*shape, scale=1.0):
    """Short numbers, so that the file stays small."""
    return (np.round(random.standard_normal(shape) * 8) / 8 * scale).astype(np.float32)


def codes(*shape, low=0, high=256, dtype=np.uint8):
    return random.integers(low, high, shape).astype(dtype)


def ints(values, dtype=np.int32):
    return np.array(values, dtype)


def case(name, op, inputs, outputs, domain=MS, opset=1, keep=None, **attrs):
    """Runs one node and keeps what it gave. `outputs` may hold '' for what is left out."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, domain=domain, **attrs)
    given = [
        helper.make_tensor_value_info(n, TYPES[x.dtype], x.shape)
        for n, x in zip(names, inputs)
        if x is not None
    ]
    wanted = [o for o in outputs if o]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info(o) for o in wanted])
    imports = [helper.make_opsetid("", 18 if domain else opset), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    results = session.run(wanted, {n: x for n, x in zip(names, inputs) if x is not None})
    text = f"case {name}\n"
    for n, x in zip(names, inputs):
        if x is not None:
            text += f"const %{n} {tensor_text.array(x, TYPES[x.dtype])}\n"
    text += tensor_text.node(node, {"": opset} if not domain else {MS: 1})
    for i, (o, result) in enumerate(zip(wanted, results)):
        if keep and o in keep:
            result = keep[o](result)
        text += f"output %{o}\n"
        text += f"const %want.{i} {tensor_text.array(result, TYPES[result.dtype], digits=5)}\n"
    cases.append(text)


def rotary_tables(rows, half):
    angles = np.outer(np.arange(rows), 1.0 / 100 ** (np.arange(half) / half))
    short = lambda x: (np.round(x * 256) / 256).astype(np.float32)
    return short(np.cos(angles)), short(np.sin(angles))


def gqa(name, batch=1, rows=3, past=0, capacity=None, heads=2, groups=1, dim=8, packed=False,
        seqlens=None, bias=False, sinks=False, positions=None, window_cache=None, **attrs):
    total = past + rows
    if window_cache:
        attrs |= {"sliding_window_cache": 1, "local_window_size": window_cache}
    if attrs.get("do_rotary"):
        dim = 16  # ONNX Runtime rotates multiples of that only
    q = floats(batch, rows, heads * dim)
    k = floats(batch, rows, groups * dim)
    v = floats(batch, rows, groups * dim)
    if packed:
        q, k, v = np.concatenate([q, k, v], axis=2), None, None
    cached = capacity if capacity is not None else past
    pasts = [None, None]
    if cached:
        pasts = [floats(batch, groups, cached, dim) for _ in range(2)]
        for p in pasts:
            p[:, :, past:] = 0  # what lies behind the past is nobody's
    seqlens = ints(seqlens if seqlens is not None else [total - 1] * batch)
    tables = rotary_tables(10 if positions else total, dim // 2) if attrs.get("do_rotary") else (None, None)
    inputs = [q, k, v, *pasts, seqlens, ints(total), *tables]
    inputs.append(ints(positions, np.int64) if positions else None)
    inputs.append(floats(1, heads, rows, total) if bias else None)
    inputs.append(floats(heads) if sinks else None)
    while inputs[-1] is None:
        inputs.pop()
    keep = None
    if window_cache:  # rows behind those that the cache holds are whatever they were
        step = cached - window_cache + 1
        held = total - step * max(0, -(-(total - cached) // step))
        zeroed = lambda x: np.concatenate([x[:, :, :held], 0 * x[:, :, held:]], axis=2)
        keep = {"present_k": zeroed, "present_v": zeroed}
    case(name, "GroupQueryAttention", inputs, ["y", "present_k", "present_v"], keep=keep,
         num_heads=heads, kv_num_heads=groups, **attrs)


def gqa_cases():
    gqa("gqa_prompt")
    gqa("gqa_prompt_rotary", do_rotary=1)
    gqa("gqa_prompt_rotary_interleaved", do_rotary=1, rotary_interleaved=1)
    gqa("gqa_prompt_packed_rotary", packed=True, do_rotary=1)
    gqa("gqa_prompt_scale_softcap", scale=0.25, softcap=2.0)
    gqa("gqa_prompt_window", rows=6, local_window_size=3)
    gqa("gqa_decode_growing", rows=1, past=4, do_rotary=1)
    gqa("gqa_decode_packed_growing", rows=1, past=4, do_rotary=1, packed=True)
    gqa("gqa_pieces_growing", rows=3, past=4, do_rotary=1)
    gqa("gqa_pieces_window", rows=3, past=5, local_window_size=4)
    gqa("gqa_decode_window_softcap", rows=1, past=6, local_window_size=3, softcap=1.5)
    gqa("gqa_decode_batch", batch=2, rows=1, past=4, seqlens=[4, 2], do_rotary=1)
    gqa("gqa_decode_sinks", rows=1, past=3, sinks=True)
    gqa("gqa_prompt_sinks_window", rows=4, sinks=True, local_window_size=2)
    gqa("gqa_prompt_smooth_softmax", smooth_softmax=1)
    gqa("gqa_prompt_bias", rows=4, bias=True)
    gqa("gqa_decode_bias", rows=1, past=3, bias=True)
    gqa("gqa_decode_positions", rows=1, past=3, do_rotary=1, positions=[[9]])
    gqa("gqa_prompt_two_groups", heads=4, groups=2)
    gqa("gqa_decode_sliding", rows=1, past=6, capacity=6, window_cache=4)
    gqa("gqa_decode_sliding_early", rows=1, past=3, capacity=6, window_cache=4)
    gqa("gqa_pieces_sliding", rows=3, past=5, capacity=6, window_cache=4, do_rotary=1)


def mha_cases():
    def run(name, inputs, outputs=("y",), **attrs):
        case(name, "MultiHeadAttention", inputs, list(outputs), num_heads=2, **attrs)

    qkv = lambda rows=3, keys=3, batch=1: [floats(batch, rows, 8), floats(batch, keys, 8), floats(batch, keys, 8)]
    all_out = ("y", "present_k", "present_v")
    past = lambda length, batch=1: [floats(batch, 2, length, 4), floats(batch, 2, length, 4)]
    run("mha_plain", qkv())
    run("mha_bias", qkv() + [floats(24)])
    run("mha_cross_lengths", qkv(2, 5))
    run("mha_unidirectional", qkv(4, 4), unidirectional=1)
    run("mha_scale", qkv(), scale=0.3)
    run("mha_padding_mask", qkv(3, 3, 2) + [None, ints([[1, 1, 0], [1, 1, 1]])])
    run("mha_padding_lengths", qkv(3, 3, 2) + [None, ints([2, 3])])
    run("mha_attention_bias", qkv() + [None, None, floats(1, 2, 3, 3)])
    run("mha_past", qkv(2, 2) + [None, None, floats(1, 1, 2, 5), *past(3)], all_out)
    run("mha_past_one_token", qkv(1, 1, 2) + [None, None, None, *past(3, 2)], all_out)
    run("mha_wide_values", [floats(1, 3, 8), floats(1, 3, 8), floats(1, 3, 12)])


def ms_attention_cases():
    def run(name, inputs, outputs=("y",), **attrs):
        case(name, "Attention", inputs, list(outputs), num_heads=2, **attrs)

    base = lambda rows=3, batch=1: [floats(batch, rows, 4), floats(4, 24), floats(24)]
    run("attention_ms_plain", base())
    run("attention_ms_unidirectional", base(4), unidirectional=1)
    run("attention_ms_mask", base(3, 2) + [ints([[1, 1, 0], [1, 1, 1]])])
    run("attention_ms_lengths", base(3, 2) + [ints([2, 3])])
    run("attention_ms_past", base(2) + [None, floats(2, 1, 2, 3, 4)], ("y", "present"), unidirectional=1)
    run("attention_ms_bias", base() + [None, None, floats(1, 2, 3, 3)])
    run("attention_ms_scale", base(), scale=0.25)


def norm_cases():
    x, skip = floats(2, 3, 8), floats(2, 3, 8)
    gamma, beta, bias = floats(8), floats(8), floats(8)
    case("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], ["y"], domain="", opset=18, epsilon=1e-6)
    case("simplified_layer_norm_f16", "SimplifiedLayerNormalization",
         [x.astype(np.float16), gamma.astype(np.float16)], ["y"], domain="", opset=18)
    case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], ["y", "", "", "sum"], epsilon=1e-5)
    case("skip_layer_norm_no_beta", "SkipLayerNormalization", [x, skip, gamma], ["y"])
    case("skip_simplified", "SkipSimplifiedLayerNormalization", [x, skip, gamma], ["y", "", "", "sum"], epsilon=1e-6)
    case("skip_simplified_bias", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], ["y", "", "", "sum"])
    case("skip_simplified_broadcast", "SkipSimplifiedLayerNormalization", [x, floats(3, 8), gamma], ["y"])
    case("layer_norm_17_f16", "LayerNormalization",
         [x.astype(np.float16), gamma.astype(np.float16), beta.astype(np.float16)], ["y"], domain="", opset=18)


def gelu_cases():
    x, bias = floats(2, 8, scale=3), floats(8)
    case("fast_gelu", "FastGelu", [x], ["y"])
    case("fast_gelu_bias", "FastGelu", [x, bias], ["y"])
    case("bias_gelu", "BiasGelu", [x, bias], ["y"])
    case("gelu_ms", "Gelu", [x], ["y"])
    case("quick_gelu", "QuickGelu", [x], ["y"])
    case("quick_gelu_alpha", "QuickGelu", [x], ["y"], alpha=1.25)


def rotary_cases():
    cos, sin = rotary_tables(8, 4)
    run = lambda name, x, pos, c=cos, s=sin, **a: case(name, "RotaryEmbedding", [x, pos, c, s], ["y"], **a)
    run("rotary_ms_3d", floats(2, 3, 16), ints([[0, 1, 2], [5, 6, 7]], np.int64))
    run("rotary_ms_4d", floats(1, 2, 3, 8), ints([[4, 5, 6]], np.int64))
    run("rotary_ms_offset", floats(1, 3, 16), ints([3], np.int64))
    run("rotary_ms_interleaved", floats(1, 3, 16), ints([[0, 1, 2]], np.int64), interleaved=1)
    c, s = rotary_tables(8, 2)
    run("rotary_ms_partial", floats(1, 3, 16), ints([[0, 1, 2]], np.int64), c, s, num_heads=2, rotary_embedding_dim=4)


def product_cases():
    fused = lambda name, a, b, **attrs: case(name, "FusedMatMul", [a, b], ["y"], **attrs)
    fused("fused_matmul_alpha", floats(2, 3, 4), floats(2, 4, 5), alpha=0.5)
    fused("fused_matmul_trans", floats(4, 3), floats(5, 4), transA=1, transB=1)
    fused("fused_matmul_trans_b", floats(2, 2, 3, 4), floats(2, 2, 5, 4), transB=1, alpha=0.25)
    fused("fused_matmul_batch", floats(4, 2, 3), floats(2, 3, 5), transBatchA=1, transA=0)

    def n_bits(name, bits, zeros=None, bias=False, k=40, n=3, block=16):
        blocks = -(-k // block)
        inputs = [floats(2, 3, k), codes(n, blocks, block * bits // 8), floats(n, blocks, scale=0.125)]
        zero = None
        if zeros == "packed":
            zero = codes(n * -(-blocks * bits // 8))
        elif zeros == "float":
            zero = floats(n, blocks, scale=4)
        inputs += [zero, None, floats(n)] if bias else [zero] if zero is not None else []
        case(name, "MatMulNBits", inputs, ["y"], K=k, N=n, bits=bits, block_size=block, accuracy_level=1)

    n_bits("matmul_4_bits", 4)
    n_bits("matmul_4_bits_zeros", 4, "packed")
    n_bits("matmul_4_bits_float_zeros", 4, "float")
    n_bits("matmul_4_bits_bias", 4, "packed", bias=True)
    n_bits("matmul_4_bits_block_32", 4, k=64, block=32)
    n_bits("matmul_8_bits", 8, k=32)
    n_bits("matmul_8_bits_zeros", 8, "packed", k=32)
    n_bits("matmul_2_bits", 2, k=64)

    a, b = codes(3, 8), codes(8, 4, low=-128, high=128, dtype=np.int8)
    zero_a, zero_b = np.array(120, np.uint8), ints([3, -4, 5, 0], np.int8)
    case("matmul_integer", "MatMulInteger", [a, b, zero_a, zero_b], ["y"], domain="", opset=18)
    case("matmul_integer_to_float", "MatMulIntegerToFloat",
         [a, b, np.array(0.05, np.float32), floats(4, scale=0.125), zero_a, zero_b, floats(4)], ["y"])
    case("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
         [floats(3, 8), b, floats(4, scale=0.125), zero_b, floats(4)], ["y"])
    x = floats(3, 8)
    case("dynamic_quantize_linear", "DynamicQuantizeLinear", [x], ["q", "scale", "zero"], domain="", opset=18)
    case("quantize_linear_ms", "QuantizeLinear", [x, floats(8, scale=0.125) ** 2 + np.float32(0.03125), codes(8)], ["q"], axis=1)
    case("dequantize_linear_ms", "DequantizeLinear", [codes(3, 8), np.array(0.5, np.float32), np.array(7, np.uint8)], ["y"])


def gather_cases():
    def run(name, bits, zeros):
        rows, columns, block = 6, 32, 16
        inputs = [codes(rows, columns * bits // 8), ints([[4, 0], [5, 5]], np.int64), floats(rows, columns // block, scale=0.125)]
        if zeros:
            inputs.append(codes(rows, max(1, columns // block * bits // 8)))
        case(name, "GatherBlockQuantized", inputs, ["y"], bits=bits, block_size=block, gather_axis=0, quantize_axis=1)

    run("gather_4_bits", 4, False)
    run("gather_4_bits_zeros", 4, True)
    run("gather_8_bits", 8, False)


def main():
    for make in (gqa_cases, mha_cases, ms_attention_cases, norm_cases, gelu_cases, rotary_cases,
                 product_cases, gather_cases):
        make()
    with open(sys.argv[1], "w") as out:
        out.write("".join(cases))
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
