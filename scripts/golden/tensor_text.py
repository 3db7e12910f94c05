"""Writes cases of one node in the text form of src/compile/ir/tensor_graph.h.

A case is `case NAME`, the node's inputs as constants, the node, its outputs, and what another
engine gave for them as constants %want.0, %want.1, ... tests/compile/eval/tensor_cases.h reads it.
"""

import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

NAMES = {t: n.lower() for n, t in TensorProto.DataType.items()}


def number(value, digits):
    """The value with so many digits; with 9, the fewest that give back a float32."""
    value = float(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = f"{value:.{digits}g}"
    for fewer in range(1, 9) if digits == 9 else ():
        if np.float32(f"{value:.{fewer}g}") == np.float32(value):
            text = f"{value:.{fewer}g}"
            break
    return text if float(text) != 0 else "0"


def array(values, elem_type, digits=9):
    """The text of an array whose ONNX element type is `elem_type`."""
    values = np.asarray(values)
    flat = values.reshape(-1)
    if NAMES[elem_type] in ("float", "float16", "bfloat16", "double"):
        if NAMES[elem_type] == "double" and digits == 9:
            digits = 17
        items = [number(v, digits) for v in flat.astype(np.float64)]
    elif "float8" in NAMES[elem_type] or "float4" in NAMES[elem_type]:  # their codes
        items = [str(int(v)) for v in flat.view(np.uint8)]
    else:
        items = [str(int(v)) for v in flat]
    shape = ", ".join(str(d) for d in values.shape)
    same = len(items) > 4 and len(set(items)) == 1
    body = items[0] if same else "{" + ", ".join(items) + "}"
    return f"{NAMES[elem_type]}[{shape}] = {body}"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def real(value):
    text = number(np.float32(value), 9)
    return text if any(c in text for c in ".en") else text + ".0"


def attribute(attr):
    kind = attr.type
    if kind == AttributeProto.INT:
        return str(attr.i)
    if kind == AttributeProto.FLOAT:
        return real(attr.f)
    if kind == AttributeProto.STRING:
        return quoted(attr.s.decode())
    if kind == AttributeProto.INTS:
        return "[" + ", ".join(str(i) for i in attr.ints) + "]"
    if kind == AttributeProto.FLOATS:
        return "[" + ", ".join(real(f) for f in attr.floats) + "]" if attr.floats else "floats []"
    if kind == AttributeProto.TENSOR:
        return "tensor " + array(numpy_helper.to_array(attr.t), attr.t.data_type)
    if kind == AttributeProto.GRAPH:
        return "graph {\n" + graph(attr.g) + "}"
    raise ValueError(f"attribute {attr.name} of kind {kind}")


def value(name):
    return "%" + quoted(name) if name else "_"


def node(n, opsets=None):
    domain = n.domain + "." if n.domain else ""
    outputs = ", ".join(value(o) for o in n.output)
    inputs = ", ".join(value(i) for i in n.input)
    attrs = ", ".join(f"{a.name} = {attribute(a)}" for a in n.attribute)
    attrs = " {" + attrs + "}" if attrs else ""
    opset = f" opset {opsets[n.domain]}" if opsets and n.domain in opsets else ""
    return f"{outputs} = {domain}{n.op_type}({inputs}){attrs}{opset}\n"


def graph(g, opsets=None):
    """The inside of a graph whose inputs stay inputs."""
    out = "".join(f"input {value(i.name)}\n" for i in g.input)
    for init in g.initializer:
        out += f"const {value(init.name)} {array(numpy_helper.to_array(init), init.data_type)}\n"
    out += "".join(node(n, opsets) for n in g.node)
    return out + "".join(f"output {value(o.name)}\n" for o in g.output)
