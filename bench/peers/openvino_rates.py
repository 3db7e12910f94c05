#!/usr/bin/env python3
"""OpenVINO GenAI on a GGUF file, as the JSON that compare_all.py reads (openvino-genai 2026.4.1.0).

    bench/peers/openvino_rates.py MODEL.gguf [THREADS]

Continuous batching with fresh prompts for every case: its prefix cache would else answer from an earlier
one. Rates of decoding are those of the tokens after the first, as kvern bench counts them.
"""

import json
import random
import sys
import time

import openvino as ov
import openvino_genai as genai


def prompt(rng, count):
    return ov.Tensor([[rng.randrange(1000, 40000) for _ in range(count)]])


def main():
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    pipe = genai.ContinuousBatchingPipeline(
        sys.argv[1], scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}
    )
    rng = random.Random(time.time_ns())

    def seconds(prompts, count):
        config = genai.GenerationConfig()
        config.max_new_tokens = count
        config.ignore_eos = True
        began = time.monotonic()
        pipe.generate(prompts, [config] * len(prompts))
        return time.monotonic() - began

    def decode(depth, count, batch):
        first = seconds([prompt(rng, depth) for _ in range(batch)], 1)
        whole = seconds([prompt(rng, depth) for _ in range(batch)], count + 1)
        return batch * count / (whole - first)

    seconds([prompt(rng, 64)], 8)
    rates = {
        "pp512": 512 / seconds([prompt(rng, 512)], 1),
        "tg64 d32": decode(32, 64, 1),
        "tg64 d1024": decode(1024, 64, 1),
        "tg64 b8 d32": decode(32, 64, 8),
    }
    results = [{"test": test, "tokens_per_second": rate} for test, rate in rates.items()]
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
