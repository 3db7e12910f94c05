"""tests/golden/tiny_<family>/: a tiny random model of each family as a Hugging Face folder, and what
transformers answers in fp32 (golden.json). Some also as GGUF, with answers of their own where the
format cannot say all of the configuration.

    python scripts/golden/tiny_families.py tests/golden [family ...]

Fails unless switching off each feature that a family is there for moves a logit of the prompt by
100 times the tolerance of the tests: a golden that cannot tell is no golden.
"""

import json
import pathlib
import shutil
import sys

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

import smollm2_model
import tiny_families_gguf
from tiny_families_list import FAMILIES

TOLERANCE, LEAST_EFFECT = 1e-4, 100
MIN_MARGIN = 2e-3
PROMPT_TOKENS, GREEDY_TOKENS = 44, 24


def _draw(name, shape, random, spec):
    values = torch.randn(shape, generator=random)
    if len(shape) == 1:
        if name.endswith("bias"):
            middle = spec.get("up_bias", 0.0) if "h_to_4h" in name else 0.0
            return middle + 0.3 * values
        offset = 0.0 if spec.get("norm_less_one") else 1.0
        return offset + 0.2 * values
    table = any(part in name for part in ("embed", "wte", "lm_head"))
    if "wpe" in name:
        return 0.5 * values
    if table and "out" not in name and "lm_head" not in name:
        return spec.get("embed_gain", 1.0) * values
    fan_in = shape[0] if ".c_" in name else shape[1]
    gain = spec.get("qk_gain", 1.8) if any(part in name for part in ("q_proj", "k_proj")) else 1.3
    if "4h_to_h" in name:
        gain = spec.get("down_gain", gain)
    if table:
        gain = spec.get("head_gain", 2.0)
    return gain * values / fan_in**0.5


def _fill(model, spec, seed):
    random = torch.Generator().manual_seed(seed)
    tied = model.get_input_embeddings().weight
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_draw(name, tuple(parameter.shape), random, spec))
        if spec["config"].get("tie_word_embeddings"):
            model.get_output_embeddings().weight = tied


def _save(folder, name, spec):
    config = AutoConfig.for_model(spec["model_type"], **spec["config"])
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    _fill(model, spec, seed=sum(map(ord, name)))
    model = model.to(spec.get("dtype", torch.bfloat16)).eval()
    model.generation_config = GenerationConfig(
        eos_token_id=[1, 5], do_sample=True, temperature=0.6, top_p=0.95, top_k=20)
    model.save_pretrained(folder, max_shard_size=spec.get("shard", "5GB"))
    for path in folder.iterdir():
        path.chmod(0o644)


def _load(folder, changes=None):
    config = AutoConfig.from_pretrained(folder)
    for key, value in (changes or {}).items():
        setattr(config, key, value)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


@torch.no_grad()
def _last_row(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0, -1]


def _greedy(model, ids):
    out, margin = [], float("inf")
    for _ in range(GREEDY_TOKENS):
        row = _last_row(model, ids + out)
        best = row.topk(2).values
        margin = min(margin, float(best[0] - best[1]))
        out.append(int(row.argmax()))
    return out, margin


def _switch(model, action):
    """Features that are no field of the configuration."""
    for path, module in model.named_modules():
        leaf = path.rsplit(".", 1)[-1]
        if action == "rope":
            for name, buffer in module.named_buffers(recurse=False):
                if "inv_freq" in name:
                    buffer.zero_()
        for child in list(module._modules):
            if child in action_norms(action):
                setattr(module, child, nn.Identity())
        if action == "bias" and getattr(module, "bias", None) is not None and leaf != "norm":
            module.bias.data.zero_()
        if action == "embed_scale" and hasattr(module, "embed_scale"):
            module.embed_scale.fill_(1.0)
        if action == "learned_positions" and leaf == "wpe":
            module.weight.data.zero_()


def action_norms(action):
    return {
        "qk_norm": ("q_norm", "k_norm"),
        "post_norms": ("post_attention_layernorm", "post_feedforward_layernorm"),
    }.get(action, ())


def _check_features(folder, spec, ids, want):
    for name, change in spec["features"].items():
        changes = change if isinstance(change, dict) else None
        model = _load(folder, changes)
        if changes is None:
            with torch.no_grad():
                _switch(model, change)
        moved = float((_last_row(model, ids) - want).abs().max())
        assert moved >= LEAST_EFFECT * TOLERANCE, f"{folder.name}: {name} moves {moved}"
        print(f"  {name}: {moved:.3f}")


def _numbers(row):
    return [float(f"{value:.7g}") for value in row.tolist()]


def _answer(model, ids):
    row = _last_row(model, ids)
    greedy, margin = _greedy(model, ids)
    assert margin > MIN_MARGIN, margin
    return {"greedy_ids": greedy, "min_margin": round(margin, 5), "logits": _numbers(row)}


def _make(root, name, spec):
    folder = root / f"tiny_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _save(folder, name, spec)
    random = torch.Generator().manual_seed(7)
    vocab = spec["config"]["vocab_size"]
    ids = torch.randint(0, vocab, (PROMPT_TOKENS,), generator=random).tolist()
    model = _load(folder)
    golden = {"versions": smollm2_model.versions(), "ids": ids, **_answer(model, ids)}
    print(name, golden["greedy_ids"][:8], "margin", golden["min_margin"])
    _check_features(folder, spec, ids, torch.tensor(golden["logits"]))
    if "gguf" in spec:
        model = _load(folder, spec["gguf"].get("changes"))
        golden["gguf"] = _answer(model, ids)
        tiny_families_gguf.write(folder / "model.gguf", name, model, spec.get("family", name))
    text = json.dumps(golden, separators=(",", ":"))
    (folder / "golden.json").write_text(text.replace(',"', ',\n"') + "\n", encoding="utf-8")


def main(root, names):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name, spec in FAMILIES.items():
        if not names or name in names:
            _make(root, name, spec)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
