"""Two graphs no exporter writes yet: Llama with the standard's own cache operators.
`past`: Attention with past_key and past_value (opset 23). `scatter`: TensorScatter into a cache of
fixed capacity, then Attention under a mask made of positions (opset 24)."""

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

import onnx_zoo_models

CAPACITY = 64


class _Builder:
    """Nodes in order; `op` returns the name of the first output."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, name, value):
        array = np.ascontiguousarray(value)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind, inputs, outputs, **attributes):
        self.nodes.append(helper.make_node(
            kind, inputs, outputs, name=f"{outputs[0]}/{kind}", **attributes))
        return outputs[0]

    def linear(self, x, name, tensor):
        weight = self.weight(name, tensor.T)
        return self.op("MatMul", [x, weight], [name.removesuffix(".weight") + ".out"])


def _heads(g, x, name, count, dim):
    shape = g.weight(f"{name}.shape", np.array([0, -1, count, dim], np.int64))
    split = g.op("Reshape", [x, shape], [f"{name}.split"])
    return g.op("Transpose", [split], [f"{name}.heads"], perm=[0, 2, 1, 3])


def _attention(g, i, q, k, v, scatter):
    names = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
    presents = [f"present.{i}.key", f"present.{i}.value"]
    if not scatter:
        g.nodes.append(helper.make_node(
            "Attention", [q, k, v, "", *names], [f"l{i}.attended", *presents], is_causal=1,
            name=f"l{i}/Attention"))
        return f"l{i}.attended"
    for past, new, present in zip(names, (k, v), presents):
        g.op("TensorScatter", [past, new, "write_indices"], [present], axis=2)
    return g.op("Attention", [q, *presents, "mask"], [f"l{i}.attended"])


def _layer(g, i, x, state, config, scatter):
    def norm(value, name):
        gain = g.weight(f"l{i}.{name}", state[f"model.layers.{i}.{name}.weight"])
        return g.op("RMSNormalization", [value, gain], [f"l{i}.{name}.out"],
                    epsilon=config["rms_norm_eps"])

    def linear(value, name):
        return g.linear(value, f"l{i}.{name}.weight", state[f"model.layers.{i}.{name}.weight"])

    dim, kv = config["head_dim"], config["num_key_value_heads"]
    h = norm(x, "input_layernorm")
    q, k, v = (_heads(g, linear(h, f"self_attn.{p}_proj"), f"l{i}.{p}", n, dim)
               for p, n in (("q", config["num_attention_heads"]), ("k", kv), ("v", kv)))
    q, k = (g.op("RotaryEmbedding", [y, "cos", "sin", "position_ids"], [f"{y}.turned"])
            for y in (q, k))
    y = g.op("Transpose", [_attention(g, i, q, k, v, scatter)], [f"l{i}.back"], perm=[0, 2, 1, 3])
    y = g.op("Reshape", [y, "merge"], [f"l{i}.merged"])
    x = g.op("Add", [x, linear(y, "self_attn.o_proj")], [f"l{i}.mid"])
    h = norm(x, "post_attention_layernorm")
    gate = linear(h, "mlp.gate_proj")
    half = g.op("Sigmoid", [gate], [f"l{i}.sigmoid"])
    gate = g.op("Mul", [gate, half], [f"l{i}.silu"])
    y = g.op("Mul", [gate, linear(h, "mlp.up_proj")], [f"l{i}.gated"])
    return g.op("Add", [x, linear(y, "mlp.down_proj")], [f"l{i}.out"])


def _mask(g):
    """[B, 1, S, capacity]: a row is seen from its position on."""
    rows = g.weight("rows", np.arange(CAPACITY, dtype=np.int64))
    axes = g.weight("mask.axes", np.array([1, 3], np.int64))
    positions = g.op("Unsqueeze", ["position_ids", axes], ["mask.positions"])
    g.op("LessOrEqual", [rows, positions], ["mask"])


def build(folder, path, scatter):
    model = onnx_zoo_models.load(folder)
    config = onnx_zoo_models.config("llama_gqa", model.config.hidden_size)
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    g = _Builder()
    turns = np.outer(np.arange(onnx_zoo_models.MAX_POSITIONS),
                     model.model.rotary_emb.inv_freq.numpy()).astype(np.float32)
    g.weight("cos", np.cos(turns))
    g.weight("sin", np.sin(turns))
    g.weight("merge", np.array([0, 0, -1], np.int64))
    if scatter:
        _mask(g)
    embed = g.weight("embed_tokens", state["model.embed_tokens.weight"])
    x = g.op("Gather", [embed, "input_ids"], ["embedded"])
    for i in range(config["num_hidden_layers"]):
        x = _layer(g, i, x, state, config, scatter)
    gain = g.weight("norm", state["model.norm.weight"])
    x = g.op("RMSNormalization", [x, gain], ["normed"], epsilon=config["rms_norm_eps"])
    g.op("MatMul", [x, g.weight("lm_head", state["lm_head.weight"].T)], ["logits"])
    _save(g, path, config, scatter)


def _save(g, path, config, scatter):
    def value(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    ids = ["batch", "sequence"]
    inputs = [value(name, TensorProto.INT64, ids) for name in ("input_ids", "position_ids")]
    if scatter:
        inputs.append(value("write_indices", TensorProto.INT64, ["batch"]))
    outputs = [value("logits", TensorProto.FLOAT, [*ids, config["vocab_size"]])]
    past, total = (CAPACITY, CAPACITY) if scatter else ("past", "total")
    for i in range(config["num_hidden_layers"]):
        for part in ("key", "value"):
            shape = ["batch", config["num_key_value_heads"], past, config["head_dim"]]
            inputs.append(value(f"past_key_values.{i}.{part}", TensorProto.FLOAT, shape))
            shape = [*shape[:2], total, shape[3]]
            outputs.append(value(f"present.{i}.{part}", TensorProto.FLOAT, shape))
    graph = helper.make_graph(g.nodes, "llama", inputs, outputs, g.weights)
    opset = helper.make_opsetid("", 24 if scatter else 23)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10 + scatter,
                              producer_name="onnx_zoo_native")
    checker.check_model(model, full_check=True)
    save(model, path)
