"""Exports of the set `old` (transformers 4.45, optimum 1.23, torch 2.4; opset 14): one decoder with
past, two decoders under one If, and the TorchScript exporter on legacy tuples."""

import inspect
import shutil
import tempfile
from pathlib import Path

import onnx_zoo_models


def _optimum(folder, path, task="text-generation-with-past", legacy=False, file="model.onnx"):
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory() as scratch:
        main_export(str(folder), output=scratch, task=task, legacy=legacy, do_validation=False,
                    local_files_only=True)
        shutil.copy(Path(scratch) / file, path)


def _tuples(folder, path, opset):
    import torch

    model = onnx_zoo_models.load(folder)
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if config.model_type == "falcon":
        heads = 1
    dim = config.hidden_size // config.num_attention_heads
    layers = config.num_hidden_layers
    positions = "position_ids" in inspect.signature(model.forward).parameters

    class Tuples(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, *rest):
            named = {"attention_mask": attention_mask}
            if positions:
                named["position_ids"], rest = rest[0], rest[1:]
            out = self.model(input_ids=input_ids, use_cache=True, return_dict=True,
                             past_key_values=tuple(zip(rest[::2], rest[1::2])), **named)
            return (out.logits, *[x for pair in out.past_key_values for x in pair])

    both = {0: "batch", 1: "sequence"}
    names, axes = ["input_ids", "attention_mask"], {"input_ids": both}
    axes["attention_mask"] = {0: "batch", 1: "total"}
    args = [torch.randint(0, onnx_zoo_models.VOCAB, (2, 3)), torch.ones(2, 8, dtype=torch.int64)]
    if positions:
        names.append("position_ids")
        axes["position_ids"] = both
        args.append(torch.arange(5, 8).expand(2, 3).contiguous())
    outputs = ["logits"]
    axes["logits"] = both
    for layer in range(layers):
        for part in ("key", "value"):
            names.append(f"past_key_values.{layer}.{part}")
            outputs.append(f"present.{layer}.{part}")
            axes[names[-1]] = {0: "batch", 2: "past"}
            axes[outputs[-1]] = {0: "batch", 2: "total"}
            args.append(torch.randn(2, heads, 5, dim))
    with torch.no_grad():
        torch.onnx.export(Tuples(), tuple(args), str(path), opset_version=opset,
                          input_names=names, output_names=outputs, dynamic_axes=axes)


def style(function, **options):
    return lambda folder, path: function(folder, path, **options)


STYLES = {
    "old_nocache": style(_optimum, task="text-generation"),
    "old_past": style(_optimum),
    "old_merged": style(_optimum, legacy=True, file="decoder_model_merged.onnx"),
    "ts14_tuple": style(_tuples, opset=14),
}
