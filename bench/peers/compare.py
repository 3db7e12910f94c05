#!/usr/bin/env python3
"""Speed of Kvern beside llama.cpp on one model file, as a markdown table (plain Python 3.9+).

    bench/peers/compare.py --kvern PATH --plan X.plan --llama-bench PATH --model X.gguf
        [-p 512] [-n 64] [-t 2] [-N 5] [--kvern-args "-r 1"] [--kvern-extra "NAME=ARGUMENTS" ...]

Both programs run once per round, a fresh process each, in an order that changes every round, so
that a slow spell of a shared machine meets both. Figures are medians (min-max) of the rounds in
tokens per second; the ratio is the median of the rounds' own ratios, Kvern divided by llama.cpp.
Each --kvern-extra "NAME=ARGUMENTS" adds a Kvern run with those arguments in place of --kvern-args.

Engines with barriers collapse when another process takes one of their cores (llama-bench: 0.9
instead of 110 tokens per second). So the processor time of everything else is measured during each
run; a run beside more than --max-other-cores of it is repeated up to three times, then kept and
marked under the table.
"""

import argparse
import json
import os
import random
import resource
import shlex
import statistics
import subprocess
import sys
import time


def busy_seconds():
    """Processor seconds of the whole machine so far, without idle and waiting for disks."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_beside(command):
    """The JSON that the command prints, and how many cores other processes used meanwhile."""
    busy, own, began = busy_seconds(), child_seconds(), time.monotonic()
    output = run_json(command)
    others = (busy_seconds() - busy) - (child_seconds() - own)
    return output, max(0.0, others / (time.monotonic() - began))


def run_json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"exit code {done.returncode}: {shlex.join(command)}\n{done.stderr[-2000:]}"
        )
    start = min((i for i in (done.stdout.find("{"), done.stdout.find("[")) if i >= 0), default=-1)
    if start < 0:
        raise SystemExit(f"no JSON in the output of {shlex.join(command)}\n{done.stdout[-2000:]}")
    return json.JSONDecoder().raw_decode(done.stdout[start:])[0]


def llama_rates(output):
    """llama-bench -o json: one entry per test, n_gen = 0 for prefill."""
    rates = {}
    for entry in output:
        name = f"pp{entry['n_prompt']}" if not entry["n_gen"] else f"tg{entry['n_gen']}"
        rates[name] = float(entry["avg_ts"])
    return rates


def first_number(entry, names):
    for name in names:
        value = entry.get(name)
        if isinstance(value, dict):  # {"median": ..., "min": ..., "max": ...}
            value = value.get("median", value.get("mean"))
        if isinstance(value, (int, float)):
            return float(value)
    return None


def kvern_rates(output):
    """kvern bench -o json: {"results": [{"test": "pp512", "tokens_per_second": ...}, ...]}."""
    entries = output.get("results", []) if isinstance(output, dict) else output
    rates = {}
    for entry in entries:
        rate = first_number(
            entry, ["tokens_per_second", "median_tokens_per_second", "tok_s", "avg_ts"]
        )
        batch = entry.get("batch", entry.get("sequences", 1))
        if rate is not None and "test" in entry and batch in (1, None):
            rates.setdefault(str(entry["test"]), rate)
    return rates


def pick(rates, kind, count):
    """The rate of the wanted test, or else of the only one of its kind (tg128 for tg64)."""
    if f"{kind}{count}" in rates:
        return rates[f"{kind}{count}"]
    same = [rate for name, rate in rates.items() if name.startswith(kind)]
    return same[0] if len(same) == 1 else None


def spread(values):
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    return f"{statistics.median(known):.1f} ({min(known):.1f}-{max(known):.1f})"


def ratio(ours, theirs):
    pairs = [a / b for a, b in zip(ours, theirs) if a and b]
    if not pairs:
        return "-"
    return f"{statistics.median(pairs):.2f} ({min(pairs):.2f}-{max(pairs):.2f})"


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown CPU"


def commands(args):
    peers = {
        "llama.cpp": (
            [
                args.llama_bench,
                "-m",
                args.model,
                "-p",
                str(args.prompt),
                "-n",
                str(args.tokens),
                "-t",
                str(args.threads),
                "-r",
                "1",
                "-o",
                "json",
            ],
            llama_rates,
        )
    }
    base = [
        args.kvern,
        "bench",
        args.plan,
        "-p",
        str(args.prompt),
        "-n",
        str(args.tokens),
        "-o",
        "json",
    ]
    peers["kvern"] = (base + shlex.split(args.kvern_args), kvern_rates)
    for extra in args.kvern_extra:
        name, _, arguments = extra.partition("=")
        peers[f"kvern {name}"] = (base + shlex.split(arguments), kvern_rates)
    return peers


def measure(peers, rounds, max_other_cores):
    figures = {name: [] for name in peers}
    order, rng, disturbed = list(peers), random.Random(1), []
    for number in range(rounds):
        rng.shuffle(order)
        for name in order:
            command, parse = peers[name]
            for attempt in range(1, 4):
                output, others = run_beside(command)
                rates = parse(output)
                shown = ", ".join(f"{test} {rate:.1f}" for test, rate in rates.items())
                print(
                    f"round {number + 1}/{rounds} {name}: {shown}; others {others:.2f} cores",
                    file=sys.stderr,
                    flush=True,
                )
                if others <= max_other_cores:
                    break
            else:
                disturbed.append(f"{name} in round {number + 1} ({others:.2f} cores)")
            figures[name].append(rates)
    return figures, disturbed


def table(figures, disturbed, args):
    prefill = {n: [pick(r, "pp", args.prompt) for r in runs] for n, runs in figures.items()}
    decode = {n: [pick(r, "tg", args.tokens) for r in runs] for n, runs in figures.items()}
    lines = [
        f"{cpu_model()}, {os.cpu_count()} cores, {args.threads} threads; {args.rounds} rounds; "
        "tokens per second, median (min-max)",
        "",
        f"| engine | prefill {args.prompt} | ratio | decode {args.tokens} | ratio |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in figures:
        same = name == "llama.cpp"
        lines.append(
            f"| {name} | {spread(prefill[name])} "
            f"| {'1' if same else ratio(prefill[name], prefill['llama.cpp'])} "
            f"| {spread(decode[name])} | {'1' if same else ratio(decode[name], decode['llama.cpp'])} |"
        )
    if disturbed:
        lines += ["", "Disturbed by other processes: " + ", ".join(disturbed) + "."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvern", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--tokens", type=int, default=64)
    parser.add_argument("-t", "--threads", type=int, default=2, help="of llama-bench")
    parser.add_argument("-N", "--rounds", type=int, default=5)
    parser.add_argument("--kvern-args", default="-r 1", help="appended to kvern bench")
    parser.add_argument("--kvern-extra", action="append", default=[], metavar="NAME=ARGUMENTS")
    parser.add_argument("--max-other-cores", type=float, default=0.2)
    args = parser.parse_args()
    print(table(*measure(commands(args), args.rounds, args.max_other_cores), args))


if __name__ == "__main__":
    main()
