"""Three prompts through transformers, ONNX Runtime and Kvern."""

import json
import subprocess
import tempfile

import numpy as np

NEW_TOKENS = 24
TOLERANCE = 1e-3  # of logits, fp32
_TEXTS = ("The water wheel turns because", "In 1807 a miller wrote:", "def grind(corn):")


def prompts(folder, vocab):
    """Ids of three texts, or random ones where the folder has no tokenizer."""
    if (folder / "tokenizer.json").is_file():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return [tokenizer(text)["input_ids"] for text in _TEXTS]
    random = np.random.default_rng(7)
    return [random.integers(0, vocab, count).tolist() for count in (5, 11, 3)]


def by_transformers(model, prompt):
    """(greedy ids, logits of the last prompt token); no cache, so nothing of it can be wrong."""
    import torch

    ids, first = list(prompt), None
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            row = model(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()
            first = row if first is None else first
            ids.append(int(row.argmax()))
    return ids[len(prompt):], first


def by_onnxruntime(session, prompt):
    """The same through the export's own cache: the prompt at once, then token by token."""
    state, first, new, past, greedy = {}, None, list(prompt), 0, []
    names = [node.name for node in session.get_outputs()]
    while len(greedy) < NEW_TOKENS:
        feed = {}
        for node in session.get_inputs():
            if node.name == "input_ids":
                feed[node.name] = np.array([new], np.int64)
            elif node.name == "attention_mask":
                feed[node.name] = np.ones((1, past + len(new)), np.int64)
            elif node.name == "position_ids":
                feed[node.name] = np.arange(past, past + len(new))[None]
            else:
                empty = [1, node.shape[1], 0, node.shape[3]]
                feed[node.name] = state.get(node.name, np.zeros(empty, np.float32))
        results = dict(zip(names, session.run(names, feed)))
        state = {name.replace("present", "past_key_values"): value
                 for name, value in results.items() if name.startswith("present")}
        past += len(new)
        row = results["logits"][0, -1]
        first = row if first is None else first
        greedy.append(int(row.argmax()))
        new = [greedy[-1]]
    return greedy, first


def _kvern(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def by_kvern(program, model, all_prompts):
    """Greedy ids from a plan with an exact KV cache, so that rounding decides nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        plan = f"{scratch}/check.plan"
        _kvern([program, "build", str(model), "-o", plan, "--kv", "f32", "--quiet"])
        return [json.loads(_kvern(
            [program, "run", plan, "--prompt-ids", ",".join(map(str, prompt)), "-n",
             str(NEW_TOKENS), "--temperature", "0", "--ignore-eos", "--json", "--quiet"]))["ids"]
            for prompt in all_prompts]
