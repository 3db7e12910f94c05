"""Writes tests/golden/smollm2_greedy.json: transformers fp32 greedy ids, 12 prompts x 48 tokens.

The weights come from the same GGUF file, dequantised to fp32 by gguf_file.py; attention is eager;
the end-of-sequence token is generated like any other. Per prompt:

  text, prompt_ids           special tokens in the text are recognised; no BOS is added
  ids                        48 greedy ids
  min_margin                 smallest top-1 minus top-2 logit of the 48 steps; at least 1e-3
  first_logits_top8          [[id, logit], ...] of the first step
  logits_probe               [48][64] logits of the vocabulary ids in the file's probe_ids

    python scripts/golden/smollm2_reference.py MODEL.gguf
"""

import argparse
import json
import pathlib

import torch

import gguf_file
import smollm2_chat
import smollm2_model
import smollm2_tokenizer

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NUM_TOKENS = 48
MIN_MARGIN = 1e-3
PROBE_IDS = [(i * 769 + 7) % 49152 for i in range(64)]

CHATS = [
    [smollm2_chat.user("What is gravity?")],
    [
        smollm2_chat.system("You are a helpful assistant who answers in one sentence."),
        smollm2_chat.user("Why do leaves turn red in autumn?"),
    ],
    [
        smollm2_chat.user("Name a fruit that is yellow."),
        smollm2_chat.assistant("A banana is a yellow fruit."),
        smollm2_chat.user("And one that is green?"),
    ],
    [smollm2_chat.user("Write a short poem about a river and a mill.")],
    [smollm2_chat.user("List three uses of copper.\n1. wire\n2. ")],
]
PLAIN = [
    "The quick brown fox",
    "Once upon a time, in a village at the foot of the mountains, there lived",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "#include <vector>\n\n// Returns the sum of all elements.\nint sum(const std::vector<int>& v) {\n",
    "2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,",
    "Water boils at 100 degrees Celsius. In the capital of France, which is called",
]
LONG_TOKENS = 200  # the last prompt is the start of english_2000.txt, cut to this many tokens


def make_prompts(template, tokenizer):
    prompts = [smollm2_chat.render(template, chat, True) for chat in CHATS] + PLAIN
    essay = (GOLDEN / "english_2000.txt").read_text(encoding="utf-8")
    long_ids = smollm2_tokenizer.encode(tokenizer, essay)[:LONG_TOKENS]
    prompts.append(tokenizer.decode(long_ids))
    assert smollm2_tokenizer.encode(tokenizer, prompts[-1]) == long_ids
    return prompts


@torch.no_grad()
def greedy(model, prompt_ids):
    ids, logits_by_step, cache = [], [], None
    step_input = torch.tensor([prompt_ids])
    for _ in range(NUM_TOKENS):
        out = model(step_input, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logits = out.logits[0, -1]
        logits_by_step.append(logits)
        ids.append(int(logits.argmax()))
        step_input = torch.tensor([[ids[-1]]])
    return ids, torch.stack(logits_by_step)


@torch.no_grad()
def largest_difference_without_cache(model, prompt_ids, ids, logits):
    """The same 48 logit rows from one run over the whole text: guards the cached loop."""
    whole = model(torch.tensor([prompt_ids + ids[:-1]]), use_cache=False).logits[0]
    return float((whole[len(prompt_ids) - 1 :] - logits).abs().max())


def describe(model, text, prompt_ids):
    ids, logits = greedy(model, prompt_ids)
    top2 = logits.topk(2, dim=-1).values
    top8 = logits[0].topk(8)
    entry = {
        "text": text,
        "prompt_ids": prompt_ids,
        "ids": ids,
        "min_margin": round(float((top2[:, 0] - top2[:, 1]).min()), 6),
        "first_logits_top8": [
            [int(i), round(float(v), 5)] for v, i in zip(top8.values, top8.indices)
        ],
        "logits_probe": [[round(float(v), 5) for v in row] for row in logits[:, PROBE_IDS]],
    }
    return entry, largest_difference_without_cache(model, prompt_ids, ids, logits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    args = parser.parse_args()

    metadata = gguf_file.read_metadata(args.model)
    tokenizer, _ = smollm2_tokenizer.build_tokenizer(metadata)
    prompts = make_prompts(metadata["tokenizer.chat_template"], tokenizer)
    model = smollm2_model.load(args.model)
    entries, refused = [], 0
    for text in prompts:
        entry, difference = describe(model, text, smollm2_tokenizer.encode(tokenizer, text))
        entries.append(entry)
        refused += entry["min_margin"] < MIN_MARGIN
        print(
            f"{len(entry['prompt_ids']):4d} tokens, margin {entry['min_margin']:.4f}, "
            f"uncached differs by {difference:.1e}: {tokenizer.decode(entry['ids'])!r}"
        )
    if refused:
        raise SystemExit(f"{refused} prompts have a margin below {MIN_MARGIN}: replace them")

    golden = {
        "model_sha256": gguf_file.sha256(args.model),
        "versions": smollm2_model.versions(),
        "probe_ids": PROBE_IDS,
        "prompts": entries,
    }
    path = GOLDEN / "smollm2_greedy.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="ascii")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
