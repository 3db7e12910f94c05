"""Exports of the set `optimum` (transformers 4.57, optimum-onnx 0.1, torch 2.9; opset 18), ONNX
Runtime's quantiser on its opt_past, and the GenAI builder 0.11."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

import onnx_zoo_models


def _optimum(folder, path, task, **options):
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory() as scratch:
        main_export(str(folder), output=scratch, task=task, do_validation=False,
                    local_files_only=True, dtype="fp32", **options)
        for file in Path(scratch).glob("model.onnx*"):
            shutil.copy(file, path.parent / file.name)


def _past_export(path):
    """The float twin, two folders over: <model>/opt_past/model.onnx."""
    twin = path.parent.parent / "opt_past" / "model.onnx"
    if not twin.is_file():
        raise FileNotFoundError(f"{twin.parent} first: the quantiser starts from it")
    return twin


def _dynamic(folder, path):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(_past_export(path), path, weight_type=QuantType.QInt8, per_channel=True,
                     op_types_to_quantize=["MatMul", "Gemm"],
                     extra_options={"MatMulConstBOnly": True})


class _Calibration:
    """Two calls for each of four random texts: 8 tokens, then 16 more on top of them."""

    def __init__(self, twin):
        import onnxruntime

        session = onnxruntime.InferenceSession(str(twin), providers=["CPUExecutionProvider"])
        self.feeds, random = [], np.random.default_rng(0)
        for _ in range(4):
            past, state = 0, {}
            for count in (8, 16):
                feed = {}
                for node in session.get_inputs():
                    feed[node.name] = state.get(node.name) if past else self._first(node)
                ids = random.integers(0, onnx_zoo_models.VOCAB, (1, count))
                feed["input_ids"] = ids.astype(np.int64)
                feed["attention_mask"] = np.ones((1, past + count), np.int64)
                if "position_ids" in feed:
                    feed["position_ids"] = np.arange(past, past + count)[None]
                names = [node.name for node in session.get_outputs()]
                results = dict(zip(names, session.run(names, feed)))
                state = {"past_key_values" + name[7:]: value for name, value in results.items()
                         if name.startswith("present")}
                past += count
                if past > 8:  # minima over empty caches do not exist
                    self.feeds.append(feed)
        self.feeds = iter(self.feeds)

    @staticmethod
    def _first(node):
        shape = [d if isinstance(d, int) else 0 for d in node.shape]
        return np.zeros([1, *shape[1:]], np.float32)

    def get_next(self):
        return next(self.feeds, None)


def _weight_products(path):
    """Names of the products with a weight: ONNX Runtime's MatMulConstBOnly is for its dynamic
    quantiser alone, so that the products of attention would be quantised too."""
    import onnx

    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    turned = {node.output[0] for node in graph.node
              if node.op_type == "Transpose" and node.input[0] in constants}
    return [node.name for node in graph.node
            if node.op_type in ("MatMul", "Gemm") and node.input[1] in constants | turned]


def _qdq(folder, path, constant_only):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    twin = _past_export(path)
    quantize_static(
        twin, path, _Calibration(twin), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
        nodes_to_quantize=_weight_products(twin) if constant_only else None)


def _genai(folder, path, precision):
    import onnx_zoo_genai

    onnx_zoo_genai.build(folder, path, precision)


def style(function, **options):
    return lambda folder, path: function(folder, path, **options)


STYLES = {
    "opt_nocache": style(_optimum, task="text-generation"),
    "opt_past": style(_optimum, task="text-generation-with-past"),
    "int8_dynamic": style(_dynamic),
    "int8_qdq": style(_qdq, constant_only=True),
    "int8_qdq_all": style(_qdq, constant_only=False),
    "genai11_fp32": style(_genai, precision="fp32"),
    "genai11_int4": style(_genai, precision="int4"),
}
