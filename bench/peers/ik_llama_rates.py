#!/usr/bin/env python3
"""ik_llama.cpp on a GGUF file, as the JSON that compare_all.py reads (ik-llama-cpp-python 0.1.5).

    bench/peers/ik_llama_rates.py MODEL.gguf [THREADS]

The wheel has no AVX-512. One sequence only: its Python API decodes no batch.
"""

import json
import random
import sys
import time

from ik_llama_cpp import IkLlama
from ik_llama_cpp._ctypes_api import llama_batch_free
from ik_llama_cpp._internals import make_batch_range, make_batch_single

UBATCH = 512


def main():
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    llama = IkLlama(sys.argv[1], n_ctx=2048, n_threads=threads, verbose=False)
    context = llama._context
    rng = random.Random(time.time_ns())

    def run(batch):
        if context.decode(batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_batch_free(batch)

    def token():
        return rng.randrange(1000, 40000)

    def prefill(count):
        context.kv_cache_clear()
        began = time.monotonic()
        for start in range(0, count, UBATCH):
            size = min(UBATCH, count - start)
            chunk = [token() for _ in range(size)]
            run(make_batch_range(chunk, pos_start=start, logits_last=start + size == count))
        context.get_logits(-1)  # waits for the result
        return time.monotonic() - began

    def decode(depth, count):
        prefill(depth)
        began = time.monotonic()
        for step in range(count):
            run(make_batch_single(token(), depth + step))
            context.get_logits(-1)
        return count / (time.monotonic() - began)

    prefill(64)
    rates = {"pp512": 512 / prefill(512), "tg64 d32": decode(32, 64), "tg64 d1024": decode(1024, 64)}
    results = [{"test": test, "tokens_per_second": rate} for test, rate in rates.items()]
    print(json.dumps({"results": results}))


if __name__ == "__main__":
    main()
