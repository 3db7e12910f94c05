"""What transformers' logits processors keep of random logits, and with which probabilities; and
torch's log_softmax. Writes tests/golden/sampling.json.

    pip install -r scripts/golden/requirements.txt
    python scripts/golden/sampling_reference.py
"""
import json
import pathlib

import torch
from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

VOCABULARY = 300
CASES = [  # temperature, top_k, min_p, top_p, repetition penalty
    (0.7, 0, 0.0, 1.0, 1.0), (1.0, 12, 0.0, 1.0, 1.0), (1.0, 0, 0.0, 0.9, 1.0),
    (1.0, 0, 0.05, 1.0, 1.0), (1.5, 40, 0.02, 0.8, 1.0), (0.8, 50, 0.0, 0.95, 1.3),
    (2.0, 0, 0.0, 0.5, 0.8), (0.3, 5, 0.1, 0.99, 1.1), (1.0, 1, 0.0, 1.0, 1.0),
    (5.0, 0, 0.3, 0.7, 1.0),
]
MARGIN = 1e-4  # no cut may fall this near to a probability: f32 would decide


def processors(temperature, top_k, min_p, top_p, penalty):
    out = LogitsProcessorList()
    if penalty != 1.0:
        out.append(RepetitionPenaltyLogitsProcessor(penalty))
    out.append(TemperatureLogitsWarper(temperature))
    if top_k:
        out.append(TopKLogitsWarper(top_k))
    if min_p:
        out.append(MinPLogitsWarper(min_p))
    if top_p < 1.0:
        out.append(TopPLogitsWarper(top_p))
    return out


def near_a_cut(before, min_p, top_p):
    p = torch.softmax(before.double(), -1).sort(descending=True).values
    at_min_p = (p / p[0] - min_p).abs().min() if min_p else 1.0
    kept = p[p / p[0] >= min_p]
    at_top_p = ((kept / kept.sum()).cumsum(0) - top_p).abs().min() if top_p < 1.0 else 1.0
    return min(float(at_min_p), float(at_top_p)) < MARGIN


def main():
    torch.manual_seed(4)
    cases = []
    for temperature, top_k, min_p, top_p, penalty in CASES:
        while True:
            # Multiples of 1/256: short to write and exact in f32. Distinct: no ties.
            logits = (torch.randperm(4096)[:VOCABULARY].float() - 2048) / 256
            prompt = torch.randint(0, VOCABULARY, (1, 40))
            before = processors(temperature, top_k, 0.0, 1.0, penalty)(prompt, logits[None])[0]
            if not near_a_cut(before, min_p, top_p):
                break
        after = processors(temperature, top_k, min_p, top_p, penalty)(prompt, logits[None])[0]
        probabilities = torch.softmax(after.double(), -1)
        kept = torch.nonzero(torch.isfinite(after)).flatten().tolist()
        cases.append({
            "temperature": temperature, "top_k": top_k, "min_p": min_p, "top_p": top_p,
            "repetition_penalty": penalty, "prompt": prompt[0].tolist(),
            "logits_x256": [round(x * 256) for x in logits.tolist()], "kept": kept,
            "probabilities": [float(f"{probabilities[i]:.6g}") for i in kept],
            "logprobs_of_first": [float(f"{x:.7g}") for x in
                                  torch.log_softmax(logits, -1)[:20].tolist()],
        })
    path = pathlib.Path(__file__).parents[2] / "tests/golden/sampling.json"
    rows = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"vocabulary":{VOCABULARY},"cases":[\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
