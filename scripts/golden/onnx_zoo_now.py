"""Exports of the set `now` (transformers 5.24, torch 2.15): torch dynamo, the TorchScript exporter,
transformers.exporters. The GenAI builder is in onnx_zoo_genai.py."""

import inspect

import onnx_ir
import torch
from torch import nn
from transformers import GenerationConfig, StaticCache
from transformers.cache_utils import DynamicCache, DynamicLayer

import onnx_zoo_models

CAPACITY = 64  # rows of a static cache
_BATCH, _NEW, _PAST = 2, 3, 5  # of the traced sample; no two alike, none 1


def _kv_shape(config):
    config = config.get_text_config()
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    if getattr(config, "multi_query", False) and config.model_type == "falcon":
        return 1, dim
    return getattr(config, "num_key_value_heads", None) or heads, dim


def _takes_positions(model):
    return "position_ids" in inspect.signature(model.forward).parameters


def _with_rows(layer, key, value):
    layer.keys, layer.values, layer.is_initialized = key, value, True
    layer.device, layer.dtype = key.device, key.dtype
    return layer


class _Growing(nn.Module):
    """(ids, mask, [positions], k0, v0, k1, ...) -> (logits, k0', v0', ...)."""

    def __init__(self, model, update_fresh):
        super().__init__()
        self.model, self.update_fresh = model, update_fresh
        self.positions = _takes_positions(model)

    def forward(self, input_ids, attention_mask, *rest):
        named = {"attention_mask": attention_mask}
        if self.positions:
            named["position_ids"], rest = rest[0], rest[1:]
        pairs = list(zip(rest[::2], rest[1::2]))
        cache = DynamicCache()
        if self.update_fresh:
            for layer, (key, value) in enumerate(pairs):
                cache.update(key, value, layer)
        else:
            cache = DynamicCache()
            cache.layers = [_with_rows(DynamicLayer(), *pair) for pair in pairs]
            cache.layer_class_to_replicate = None
        out = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True, **named)
        presents = [x for layer in cache.layers for x in (layer.keys, layer.values)]
        return (out.logits, *presents)


class _Static(nn.Module):
    """(ids, positions, rows so far, k0, v0, ...) -> (logits, k0', v0', ...); caches of CAPACITY
    rows, of a sliding layer as many as the window."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids, cache_length, *rest):
        cache = StaticCache(self.model.config, max_cache_len=CAPACITY)
        for layer, key, value in zip(cache.layers, rest[::2], rest[1::2]):
            _with_rows(layer, key.clone(), value.clone())
            layer.cumulative_length = cache_length.clone()
            # A sliding layer asks whether it is full: no, says the trace.
            layer.cumulative_length_int = 0
        out = self.model(input_ids=input_ids, position_ids=position_ids,
                         past_key_values=cache, use_cache=True)
        presents = [x for layer in cache.layers for x in (layer.keys, layer.values)]
        return (out.logits, *presents)


def _names(model, first):
    layers = model.config.get_text_config().num_hidden_layers
    pasts = [f"past_key_values.{i}.{part}" for i in range(layers) for part in ("key", "value")]
    presents = [f"present.{i}.{part}" for i in range(layers) for part in ("key", "value")]
    return first + pasts, ["logits", *presents], len(pasts)


def _growing_sample(model):
    generator = torch.Generator().manual_seed(1)
    heads, dim = _kv_shape(model.config)
    first = ["input_ids", "attention_mask"]
    ids = torch.randint(0, onnx_zoo_models.VOCAB, (_BATCH, _NEW), generator=generator)
    args = [ids, torch.ones(_BATCH, _PAST + _NEW, dtype=torch.int64)]
    axes = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}]
    if _takes_positions(model):
        first.append("position_ids")
        args.append(torch.arange(_PAST, _PAST + _NEW).expand(_BATCH, _NEW).contiguous())
        axes.append({0: "batch", 1: "sequence"})
    inputs, outputs, count = _names(model, first)
    args += [torch.randn(_BATCH, heads, _PAST, dim, generator=generator) for _ in range(count)]
    axes += [{0: "batch", 2: "past"}] * count
    return inputs, outputs, tuple(args), axes


def _dynamo(folder, path, opset, optimize_for_ort=False):
    model = onnx_zoo_models.load(folder)
    inputs, outputs, args, axes = _growing_sample(model)
    split = 2 + _takes_positions(model)
    program = torch.onnx.export(
        _Growing(model, update_fresh=False), args, dynamo=True, opset_version=opset,
        input_names=inputs, output_names=outputs,
        dynamic_shapes=(*axes[:2], tuple(axes[2:])) if split else None)
    if optimize_for_ort:
        from onnxscript.rewriter.ort_fusions import optimize_for_ort as fuse

        fuse(program.model)
    program.save(path, external_data=False)


def _dynamo_static(folder, path, opset):
    model = onnx_zoo_models.load(folder)
    heads, dim = _kv_shape(model.config)
    inputs, outputs, count = _names(model, ["input_ids", "position_ids", "cache_length"])
    ids = torch.randint(0, onnx_zoo_models.VOCAB, (_BATCH, _NEW))
    args = [ids, torch.arange(_PAST, _PAST + _NEW).expand(_BATCH, _NEW).contiguous(),
            torch.tensor(_PAST)]
    layers = StaticCache(model.config, max_cache_len=CAPACITY).layers
    args += [torch.randn(_BATCH, heads, layers[i // 2].max_cache_len, dim) for i in range(count)]
    both = {0: "batch", 1: "sequence"}
    program = torch.onnx.export(
        _Static(model), tuple(args), dynamo=True, opset_version=opset, input_names=inputs,
        output_names=outputs, dynamic_shapes=(both, both, {}, ({0: "batch"},) * count))
    program.save(path, external_data=False)


def _torchscript(folder, path, opset):
    model = onnx_zoo_models.load(folder)
    inputs, outputs, args, axes = _growing_sample(model)
    dynamic = dict(zip(inputs, axes))
    dynamic |= {name: {0: "batch", 2: "total"} for name in outputs[1:]}
    dynamic["logits"] = {0: "batch", 1: "sequence"}
    with torch.no_grad():
        torch.onnx.export(
            _Growing(model, update_fresh=True), args, path, dynamo=False, opset_version=opset,
            input_names=inputs, output_names=outputs, dynamic_axes=dynamic)


def _exporters(folder, path, component="decode", static=False, padded=False, multi=True, ort=None):
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    model = onnx_zoo_models.load(folder)
    torch.manual_seed(1)
    mask = torch.ones(_BATCH, 6, dtype=torch.int64)
    if padded:
        mask[0, :2] = 0
    sample = {"input_ids": torch.randint(3, onnx_zoo_models.VOCAB, (_BATCH, 6)),
              "attention_mask": mask}
    generation = GenerationConfig(do_sample=False, pad_token_id=0)
    if static:
        generation.cache_implementation = "static"
        generation.max_length = generation.max_cache_len = CAPACITY
        generation.cache_config = None
    exported = OnnxExporter().export_for_generation(
        model, sample, OnnxConfig(dynamic=True, ort_fusions=ort),
        generation_config=generation, multi_token_decode=multi)
    onnx_ir.save(exported.components[component].program, str(path))


def _genai(folder, path, **options):
    import onnx_zoo_genai

    onnx_zoo_genai.build(folder, path, **options)


def _native(folder, path, scatter):
    import onnx_zoo_native

    onnx_zoo_native.build(folder, path, scatter)


def style(function, **options):
    return lambda folder, path: function(folder, path, **options)


STYLES = {
    "dyn18": style(_dynamo, opset=18),
    "dyn20": style(_dynamo, opset=20),
    "dyn23": style(_dynamo, opset=23),
    "dyn24": style(_dynamo, opset=24),
    "dyn18_ort": style(_dynamo, opset=18, optimize_for_ort=True),
    "dynstatic18": style(_dynamo_static, opset=18),
    "dynstatic24": style(_dynamo_static, opset=24),
    "ts17": style(_torchscript, opset=17),
    "hfx_prefill": style(_exporters, component="prefill"),
    "hfx_decode": style(_exporters),
    "hfx_padded": style(_exporters, padded=True),
    "hfx_step": style(_exporters, multi=False),
    "hfx_static": style(_exporters, static=True),
    "hfx_cpu": style(_exporters, ort="cpu"),
    "genai_fp32": style(_genai, precision="fp32"),
    "genai_int4": style(_genai, precision="int4"),
    "native23_past": style(_native, scatter=False),
    "native24_scatter": style(_native, scatter=True),
}
ONLY = dict.fromkeys(("native23_past", "native24_scatter"), ("llama_gqa",))
