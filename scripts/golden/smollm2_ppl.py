"""Writes tests/golden/smollm2_ppl.json: transformers fp32, teacher-forced on english_2000.txt.

One run over the first 2,000 tokens of the text, no BOS. Position i has seen ids[0..i]:

  ids            [2000]  the tokens fed
  argmax         [2000]  the most likely next id after position i
  margin         [2000]  its logit minus the second best, rounded to 1e-4
  log_prob_next  [1999]  natural log of the probability of ids[i + 1], rounded to 1e-5
  perplexity             exp of minus their mean

    python scripts/golden/smollm2_ppl.py MODEL.gguf
"""

import argparse
import json
import math
import pathlib

import torch

import gguf_file
import smollm2_model
import smollm2_tokenizer

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
NUM_TOKENS = 2000


@torch.no_grad()
def teacher_forced(model, ids):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    top2 = logits.topk(2, dim=-1)
    next_ids = torch.tensor(ids[1:])[:, None]
    log_probs = logits[:-1].double().log_softmax(dim=-1).gather(1, next_ids)[:, 0]
    return top2, log_probs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    args = parser.parse_args()

    tokenizer, _ = smollm2_tokenizer.build_tokenizer(gguf_file.read_metadata(args.model))
    text = (GOLDEN / "english_2000.txt").read_text(encoding="utf-8")
    ids = smollm2_tokenizer.encode(tokenizer, text)[:NUM_TOKENS]
    assert len(ids) == NUM_TOKENS
    top2, log_probs = teacher_forced(smollm2_model.load(args.model), ids)
    golden = {
        "model_sha256": gguf_file.sha256(args.model),
        "versions": smollm2_model.versions(),
        "perplexity": round(math.exp(-float(log_probs.mean())), 5),
        "ids": ids,
        "argmax": top2.indices[:, 0].tolist(),
        "margin": [round(float(m), 4) for m in top2.values[:, 0] - top2.values[:, 1]],
        "log_prob_next": [round(float(v), 5) for v in log_probs],
    }
    path = GOLDEN / "smollm2_ppl.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="ascii")
    print(f"{path}: {path.stat().st_size} bytes, perplexity {golden['perplexity']}")


if __name__ == "__main__":
    main()
