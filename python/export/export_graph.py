"""Exports a Hugging Face folder to ONNX with a cache that grows, and checks what came out."""

import inspect
import pathlib
import shutil
import tempfile

MIN_OPSET, MAX_OPSET = 14, 24
BESIDE = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer.model",
          "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


class Refused(Exception):
    pass


def load(folder, attention=None):
    import torch
    from transformers import AutoModelForCausalLM

    changes = {"attn_implementation": attention} if attention else {}
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, **changes).eval()


def _dynamo_sample(model):
    """Names, values and free axes of the traced inputs: 3 new tokens on top of 5, batch of 2."""
    import torch

    vocab = model.config.get_text_config().vocab_size
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(0, vocab, (2, 8), generator=random)
    with torch.no_grad():
        layers = model(input_ids=ids[:, :5], use_cache=True).past_key_values.layers
    both = {0: "batch", 1: "sequence"}
    named = {"input_ids": (ids[:, 5:].contiguous(), both),
             "attention_mask": (torch.ones(2, 8, dtype=torch.int64), {0: "batch", 1: "total"})}
    if "position_ids" in inspect.signature(model.forward).parameters:
        named["position_ids"] = (torch.arange(5, 8).expand(2, 3).contiguous(), both)
    pasts = {}
    for index, layer in enumerate(layers):
        for part, rows in (("key", layer.keys), ("value", layer.values)):
            shape = (2, rows.shape[1], 5, rows.shape[3])
            pasts[f"past_key_values.{index}.{part}"] = torch.randn(shape, generator=random)
    return named, pasts


def _export_dynamo(folder, path, opset):
    import torch
    from transformers.cache_utils import DynamicCache, DynamicLayer

    model = load(folder)
    named, pasts = _dynamo_sample(model)

    class WithCache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *args):
            cache = DynamicCache()
            rest = args[len(named):]
            for key, value in zip(rest[::2], rest[1::2]):
                layer = DynamicLayer()
                layer.keys, layer.values, layer.is_initialized = key, value, True
                layer.dtype, layer.device = key.dtype, key.device
                cache.layers.append(layer)
            cache.layer_class_to_replicate = None
            out = self.model(**dict(zip(named, args)), past_key_values=cache, use_cache=True)
            return (out.logits, *[x for l in cache.layers for x in (l.keys, l.values)])

    values = [value for value, _ in named.values()] + list(pasts.values())
    axes = [axis for _, axis in named.values()] + [{0: "batch", 2: "past"}] * len(pasts)
    program = torch.onnx.export(
        WithCache(), tuple(values), dynamo=True, opset_version=opset, verbose=False,
        input_names=[*named, *pasts], dynamic_shapes=(tuple(axes),),
        output_names=["logits", *[name.replace("past_key_values", "present") for name in pasts]])
    program.save(str(path))


def _export_optimum(folder, path, opset):
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        main_export(str(folder), output=scratch, task="text-generation-with-past", dtype="fp32",
                    library_name="transformers", do_validation=False, local_files_only=True,
                    opset=opset)
        for file in pathlib.Path(scratch).glob("model.onnx*"):
            shutil.move(file, path.parent / file.name)


def export(exporter, folder, out, opset):
    """Writes out/model.onnx (and data) and copies what a plan needs beside it."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "model.onnx"
    {"dynamo": _export_dynamo, "optimum": _export_optimum}[exporter](folder, path, opset)
    for name in BESIDE:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
    return path


def _dims(value):
    return [d.dim_value if d.HasField("dim_value") else d.dim_param
            for d in value.type.tensor_type.shape.dim]


def _want(condition, message):
    if not condition:
        raise Refused(message)


def check(path):
    """Inputs, outputs, opset and free axes, as Kvern wants them; returns one line about them."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    opset = next((o.version for o in model.opset_import if not o.domain), 0)
    _want(MIN_OPSET <= opset <= MAX_OPSET,
          f"opset {opset}: {MIN_OPSET} to {MAX_OPSET} are known; export with --opset 18")
    inputs = {v.name: _dims(v) for v in model.graph.input}
    outputs = {v.name: _dims(v) for v in model.graph.output}
    pasts = [name for name in inputs if name.startswith("past_key_values.")]
    _want("input_ids" in inputs, f"no input 'input_ids'; there are {list(inputs)}")
    _want(len(inputs["input_ids"]) == 2 and all(isinstance(d, str) for d in inputs["input_ids"]),
          f"input_ids has the shape {inputs['input_ids']}: batch and sequence must be free")
    _want(pasts, "no input 'past_key_values.*': the export has no cache")
    for name in pasts:
        present = name.replace("past_key_values", "present")
        _want(present in outputs, f"'{name}' has no '{present}' among the outputs")
        _want(len(inputs[name]) == 4 and isinstance(inputs[name][2], str),
              f"'{name}' has the shape {inputs[name]}: axis 2, the past, must be free")
    _want("logits" in outputs and len(outputs["logits"]) == 3, f"no 3-D 'logits' in {outputs}")
    layers = len(pasts) // 2
    return f"opset {opset}, {len(model.graph.node)} nodes, {layers} layers with a cache"
